package sandbox

import "hash/fnv"

type text struct{ note, preview string }

// Texts that simulated lawyers write. As with real lawyers, the note does not extend the preview: the preview is for
// the partner, the note for the client.
var texts = map[string][]text{
	"FR": {
		{
			preview: "Situation examinée avec le client. Les prochaines démarches et les délais à respecter lui ont " +
				"été expliqués.",
			note: "Entretien téléphonique. Faits exposés par le client, pièces essentielles passées en " +
				"revue oralement. Conseil : adresser une mise en demeure en recommandé, conserver tous les échanges " +
				"écrits, puis saisir le conciliateur. Délai de prescription rappelé. Un rendez-vous au cabinet n'est " +
				"utile qu'en l'absence de réponse " +
				"sous quinze jours.",
		},
		{
			preview: "Échange clair avec le client : ses droits ont été précisés et une démarche amiable est " +
				"recommandée dans un premier temps.",
			note: "Le client souhaite connaître ses droits avant d'agir. Analyse du risque : favorable, sous réserve " +
				"de la lecture du contrat. Recommandations : réunir le contrat et ses avenants, demander par écrit " +
				"les justificatifs, ne rien signer avant leur réception. Voies de recours et coût prévisible d'une " +
				"procédure détaillés.",
		},
		{
			preview: "Conseil donné sur la marche à suivre et sur les documents à réunir. Aucune urgence " +
				"relevée à ce stade.",
			note: "Question ponctuelle. Rappel du cadre applicable et de la charge de la preuve. Liste des documents " +
				"dictée au client. Pas de délai imminent identifié. Stratégie proposée en deux temps, négociation " +
				"puis action, avec les arguments à avancer.",
		},
	},
	"EN": {
		{
			preview: "The situation was reviewed with the client. The next steps and the time limits to observe " +
				"were explained.",
			note: "Telephone consultation. Facts set out by the client, main documents gone through orally. " +
				"Advice: send a formal notice by registered post, keep all written exchanges, then " +
				"turn to mediation. Limitation period pointed out. A meeting is useful only if there is no answer " +
				"within fifteen days.",
		},
		{
			preview: "A clear exchange: the client knows where they stand, and an amicable approach is " +
				"recommended first.",
			note: "The client wishes to know their rights before acting. Risk assessment: favourable, subject to " +
				"reading the contract. Recommendations: collect the contract and its amendments, ask for supporting " +
				"documents in writing, sign nothing before they arrive. Remedies and foreseeable cost of " +
				"proceedings set out.",
		},
		{
			preview: "Advice was given on how to proceed and on the documents to collect. Nothing urgent was " +
				"found at this stage.",
			note: "Single question. Applicable rules and burden of proof recalled. List of documents dictated " +
				"to the client. No imminent deadline identified. Two-stage strategy proposed, negotiation then " +
				"action, with the arguments to put forward.",
		},
	},
}

// textFor returns the text for a consultation, always the same for the same one.
func textFor(language, consultationID string) text {
	choice := texts[language]
	if choice == nil {
		choice = texts["EN"]
	}
	h := fnv.New32a()
	h.Write([]byte(consultationID))
	return choice[h.Sum32()%uint32(len(choice))]
}

// correction returns the text that a corrected note adds.
func correction(language string) string {
	if language == "FR" {
		return " Rectification : le délai court à compter de la réception."
	}
	return " Correction: the time runs from the receipt."
}
