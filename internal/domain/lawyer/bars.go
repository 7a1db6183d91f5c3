package lawyer

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// bars lists the French bars, one for each judicial court that has one, by their names in the profession's directory. A
// lawyer registered elsewhere is recorded with [Registration.OtherBar].
var bars = strings.Split(strings.TrimSpace(`
Agen|Ain|Aix-en-Provence|Ajaccio|Albertville|Albi|Alençon|Alès|Alpes-de-Haute-Provence|Amiens|Angers|Annecy|Ardèche|Ardennes|Ariège|
Arras|Aube|Aurillac|Auxerre|Aveyron|Avignon|Avranches-Coutances|Bastia|Bayonne|Beauvais|Belfort|Bergerac-Sarlat|Besançon|Béthune|Béziers|
Blois|Bonneville|Bordeaux|Boulogne-sur-Mer|Bourges|Bourgoin-Jallieu|Brest|Brive|Caen|Cambrai|Carcassonne|Carpentras|Castres|Cayenne|
Chalon-sur-Saône|Châlons-en-Champagne|Chambéry|Charente|Chartres|Châteauroux|Cherbourg|Clermont-Ferrand|Colmar|Compiègne|Creuse|
Cusset-Vichy|Dax|Dieppe|Dijon|Douai|Draguignan|Drôme|Dunkerque|Épinal|Essonne|Eure|Fontainebleau|Gers|Grasse|Grenoble|Guadeloupe|Guyane|
Haute-Loire|Haute-Marne|Hautes-Alpes|Hautes-Pyrénées|Haute-Saône|Hauts-de-Seine|Jura|La Rochelle-Rochefort|La Roche-sur-Yon|Landes|
Laon|Laval|Le Havre|Le Mans|Les Sables-d'Olonne|Libourne|Lille|Limoges|Lisieux|Lorient|Lot|Lyon|Mâcon|Marseille|Martinique|Mayotte|
Meaux|Melun|Metz|Meuse|Mont-de-Marsan|Montargis|Montbéliard|Montluçon|Montpellier|Moulins|Mulhouse|Nancy|Nantes|Narbonne|Nevers|Nice|Nîmes|
Niort|Nouméa|Orléans|Papeete|Paris|Pau|Périgueux|Poitiers|Pyrénées-Orientales|Quimper|Reims|Rennes|Roanne|Rouen|Saint-Brieuc|Saint-Denis de La Réunion|
Saint-Étienne|Saint-Malo-Dinan|Saint-Nazaire|Saint-Omer|Saint-Pierre de La Réunion|Saint-Quentin|Saintes|Sarreguemines|Saumur|Saverne|Seine-Saint-Denis|
Senlis|Sens|Soissons|Strasbourg|Tarascon|Tarn-et-Garonne|Thionville|Thonon-les-Bains|Toulon|Toulouse|Tours|Tulle|Val-d'Oise|Val-de-Marne|
Valenciennes|Vannes|Verdun|Versailles|Vesoul|Vienne|Villefranche-sur-Saône`), "|")

var barByKey = func() map[string]string {
	keys := map[string]string{}
	for i, bar := range bars {
		bars[i] = strings.TrimSpace(bar)
		keys[barKey(bar)] = bars[i]
	}
	return keys
}()

// Bars lists the known bars.
func Bars() []string { return bars }

// barKey returns a key that is equal for all spellings of a name: letters and digits without accents or case.
func barKey(name string) string {
	var b strings.Builder
	for _, r := range norm.NFD.String(strings.ToLower(name)) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			b.WriteRune(r)
		}
	}
	return b.String()
}
