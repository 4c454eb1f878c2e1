package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Todo keeps the plan the user sees.
type Todo struct{}

const maxPlan = 100

func (Todo) Name() string        { return "todo" }
func (Todo) Description() string { return describe("todo") }
func (Todo) Kind() string        { return "think" }
func (Todo) Schema() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"items":{"type":"array","maxItems":100,"items":{"type":"object","properties":{` +
		`"content":{"type":"string"},` +
		`"status":{"enum":["pending","in_progress","completed"]},` +
		`"priority":{"enum":["high","medium","low"]}},` +
		`"required":["content","status"],"additionalProperties":false}}},` +
		`"required":["items"],"additionalProperties":false}`)
}

// Plan implements Tool.
func (Todo) Plan(_ context.Context, _ *Env, args json.RawMessage) (*Action, error) {
	var in struct {
		Items []PlanEntry `json:"items"`
	}
	if err := decode(args, &in); err != nil {
		return nil, err
	}
	if in.Items == nil {
		return nil, errors.New("the argument items is missing")
	}
	if len(in.Items) > maxPlan {
		return nil, fmt.Errorf("the plan has %d steps, the limit is %d", len(in.Items), maxPlan)
	}
	done := 0
	for i := range in.Items {
		item := &in.Items[i]
		if strings.TrimSpace(item.Content) == "" {
			return nil, fmt.Errorf("step %d of the plan is empty", i+1)
		}
		switch item.Status {
		case "":
			item.Status = "pending"
		case "completed":
			done++
		case "pending", "in_progress":
		default:
			return nil, fmt.Errorf("step %d of the plan has the status %q: it is pending, in_progress or completed", i+1, item.Status)
		}
		switch item.Priority {
		case "":
			item.Priority = "medium"
		case "high", "medium", "low":
		default:
			return nil, fmt.Errorf("step %d of the plan has the priority %q: it is high, medium or low", i+1, item.Priority)
		}
	}
	return &Action{
		Title: "Plan " + plural(len(in.Items), "step"),
		Run: func(context.Context, func([]Content)) (Result, error) {
			return Result{
				Text: fmt.Sprintf("The plan has %s, %d done.", plural(len(in.Items), "step"), done),
				Raw:  map[string]any{"steps": len(in.Items), "completed": done},
				Plan: append([]PlanEntry{}, in.Items...),
			}, nil
		},
	}, nil
}
