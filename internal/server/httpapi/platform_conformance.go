package httpapi

import (
	"context"

	"partnerd/gen/platform/models"
	"partnerd/gen/platform/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/conformance"
)

// ExamineEndpoint handles POST /api/platform/v1/endpoint/examine.
func (p platform) ExamineEndpoint(ctx context.Context,
	_ server.ExamineEndpointRequestObject,
) (server.ExamineEndpointResponseObject, error) {
	if err := p.deps.Portal.BeginExamination(ctx, itself(ctx)); err != nil {
		return nil, err
	}
	report, err := p.deps.Conformance.Examine(ctx, requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	return server.ExamineEndpoint200JSONResponse{Body: examinationView(report)}, nil
}

// GetExamination handles GET /api/platform/v1/endpoint/examination.
func (p platform) GetExamination(ctx context.Context,
	_ server.GetExaminationRequestObject,
) (server.GetExaminationResponseObject, error) {
	report, err := p.deps.Conformance.Last(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	if report == nil {
		return nil, problem.ErrNotFound
	}
	return server.GetExamination200JSONResponse{Body: examinationView(*report)}, nil
}

// GetChecklist handles GET /api/platform/v1/checklist.
func (p platform) GetChecklist(ctx context.Context,
	_ server.GetChecklistRequestObject,
) (server.GetChecklistResponseObject, error) {
	items, err := p.deps.Conformance.Checklist(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	v := models.Checklist{Done: true, Items: views(items, func(i conformance.Item) models.ChecklistItem {
		v := models.ChecklistItem{Name: i.Name, Title: i.Title, Done: i.Done, Saw: i.Saw}
		if i.Later {
			v.NotChecked = &i.Later
		}
		return v
	})}
	for _, i := range items {
		v.Done = v.Done && (i.Done || i.Later)
	}
	return server.GetChecklist200JSONResponse{Body: v}, nil
}

func examinationView(r conformance.Report) models.Examination {
	return models.Examination{At: clock.Stamp(r.At), Passed: r.Passed,
		Results: views(r.Results, func(x conformance.Result) models.ExaminationResult {
			return models.ExaminationResult{Name: x.Name, Title: x.Title, Advice: x.Advice, Passed: x.Passed,
				Fault: optional(x.Fault), Why: optional(x.Why), DurationMs: x.Took.Milliseconds()}
		})}
}
