package fakellm

import "io"

// openai streams a reply as the Chat Completions API does.
func (st *stream) openai() {
	p := st.p
	chunk := func(delta object, finish any) {
		st.send("", object{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": st.model, "usage": nil,
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}}})
	}
	chunk(object{"role": "assistant", "content": nil}, nil)
	for _, t := range p.Thoughts {
		st.tokens++
		chunk(object{"reasoning_content": t}, nil)
	}
	for _, t := range p.Texts {
		st.tokens++
		chunk(object{"content": t}, nil)
	}
	if p.Refusal != "" {
		chunk(object{"refusal": p.Refusal}, nil)
	}
	if st.trouble() {
		return
	}
	if p.Fail {
		_, _ = io.WriteString(st.w, "data: "+string(st.s.errorBody(p))+"\n\n")
		st.flush()
		return
	}
	// The calls come one beside the other, as parallel ones do.
	args := make([][]string, len(p.Calls))
	longest := 0
	for i, c := range p.Calls {
		args[i] = st.args(i)
		longest = max(longest, len(args[i]))
		chunk(object{"tool_calls": []object{{"index": i, "id": st.callID(), "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
	}
	for n := range longest {
		for i := range p.Calls {
			if n < len(args[i]) {
				st.tokens++
				chunk(object{"tool_calls": []object{{"index": i, "function": object{"arguments": args[i][n]}}}}, nil)
			}
		}
	}
	stop := p.Stop
	if stop == "" {
		stop = "stop"
		if len(p.Calls) > 0 {
			stop = "tool_calls"
		}
	}
	chunk(object{}, stop)
	st.send("", object{"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": st.model, "choices": []any{},
		"usage": object{"prompt_tokens": st.cached + st.fresh, "completion_tokens": st.tokens, "total_tokens": st.cached + st.fresh + st.tokens,
			"prompt_tokens_details":     object{"cached_tokens": st.cached},
			"completion_tokens_details": object{"reasoning_tokens": len(p.Thoughts)}}})
	_, _ = io.WriteString(st.w, "data: [DONE]\n\n")
	st.flush()
}
