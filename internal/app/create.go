package app

import (
	"context"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
)

// byProgram is the operator action for everything that the program sets up itself.
var byProgram = operator.Act{Actor: "partnerd", Reason: "Set up by the program."}

// CreateApplication is [operator.Service.RegisterApplication] for what the program sets up itself.
func (a *App) CreateApplication(ctx context.Context, n application.NewApplication,
	webhookURL string,
) (operator.Credentials, error) {
	return a.Operator.RegisterApplication(ctx, byProgram, n, webhookURL)
}

// CreateClient is [operator.Service.CreateClient] for what the program sets up itself.
func (a *App) CreateClient(ctx context.Context, n account.NewClient, balance money.Cents) (account.Client, error) {
	return a.Operator.CreateClient(ctx, byProgram, n, balance)
}

// CreateLawyer is [operator.Service.CreateLawyer] for what the program sets up itself.
func (a *App) CreateLawyer(ctx context.Context, n lawyer.NewLawyer) (lawyer.Lawyer, error) {
	return a.Operator.CreateLawyer(ctx, byProgram, n)
}
