package main

// Side effects of a command are described in its long help, which --help of that command prints.

func (*doctorCmd) Help() string {
	return "Says what to do about each finding. Changes nothing. Fails if a check fails."
}

func (*healthcheckCmd) Help() string {
	return "Use it as the health check of a container. It needs no other program in the image."
}

func (*appSuspendCmd) Help() string {
	return "Consultations already under way are completed. Connections to clients are kept."
}

func (*appResumeCmd) Help() string {
	return "The application's connections to clients work as before the suspension."
}

func (*appInviteCmd) Help() string { return "Emails an invitation to the developer portal." }

func (*appRotateCmd) Help() string {
	return "If the previous secret of an earlier rotation is still valid, the command is refused without " +
		"--end-previous or --keep-previous."
}

func (*clientDisableCmd) Help() string {
	return "Ends the client's browser sessions and connections to applications; enabling the client does not bring " +
		"them back. Consultations already under way are completed."
}

func (*clientEnableCmd) Help() string {
	return "The client signs in and links applications again. Earlier connections are not restored."
}

func (*lawyerReinviteCmd) Help() string {
	return "Use it for a lost second factor. Ends the password, second factor, passkeys and sessions. The lawyer " +
		"chooses new ones with the emailed link."
}

func (*operatorReinviteCmd) Help() string {
	return "Use it for a lost second factor. Ends the password, second factor, passkeys and sessions. The operator " +
		"chooses new ones with the emailed link."
}

func (*lawyerCheckCmd) Help() string {
	return "In live, a lawyer without a valid check cannot go on duty."
}

func (*lawyerDutySetCmd) Help() string {
	return "Replaces all hours. A lawyer who goes on duty gets consultations at any time, whatever the hours."
}

func (*lawyerSuspendCmd) Help() string {
	return "The lawyer can no longer go on duty. An open offer and an assigned consultation go to other lawyers. " +
		"A call already under way continues."
}

func (*deploymentMoveCmd) Help() string {
	return "Restart every server and worker afterwards. Access tokens and links that were already sent stop working. " +
		"If the host changes, so do passkeys."
}

func (*keyRotateCmd) Help() string {
	return "The key is published immediately. Running servers pick it up without a restart."
}

func (*keyRetireCmd) Help() string {
	return "Use it for a key that may have leaked. Its access tokens are rejected within a second."
}

func (*keyExtendMasterCmd) Help() string {
	return "Deploy the printed key to every server, then run promote-master."
}

func (*keyPromoteMasterCmd) Help() string {
	return "Run it when every server has the extended key. Deploy the printed key to every server, then run reseal."
}

func (*keyUsesCmd) Help() string { return "Changes nothing. Reads the encrypted tables in full." }

func (*keyResealCmd) Help() string {
	return "Run it when every server has the promoted key; servers keep running. If it is interrupted, run it again " +
		"and it continues."
}

func (*keyTrimMasterCmd) Help() string { return "Refused while any row still needs an older part." }

func (*ledgerVerifyCmd) Help() string {
	return "Compares the ledger with itself, with consultations and with payments, and detects changed rows. By " +
		"default it checks only what is new since the last check without findings. --full takes minutes for " +
		"millions of transactions."
}

func (*migrationsStatusCmd) Help() string { return "Changes nothing." }

func (*migrationsDownCmd) Help() string {
	return "Run it with the version that applied the migration. Then start the previous version."
}

func (*restoredCmd) Help() string {
	return "With --lost-database-url it repeats erasures and ended connections since that time, keeps refresh tokens " +
		"working, and lists what was lost. It can be run again."
}

func (*webhookRotateCmd) Help() string {
	return "The previous secret also signs for 24 hours. If an earlier previous secret is still valid, the command " +
		"is refused without --end-previous or --keep-previous."
}
