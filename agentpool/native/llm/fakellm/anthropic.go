package fakellm

type object = map[string]any

// anthropic streams a reply as the Messages API does.
func (st *stream) anthropic() {
	p := st.p
	usage := object{"input_tokens": st.fresh, "cache_read_input_tokens": st.cached, "cache_creation_input_tokens": 0, "output_tokens": 1}
	st.send("message_start", object{"type": "message_start", "message": object{
		"id": "msg_fake", "type": "message", "role": "assistant", "model": st.model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": usage}})
	st.send("ping", object{"type": "ping"})
	index := -1
	block := func(start object, deltas ...object) {
		index++
		st.send("content_block_start", object{"type": "content_block_start", "index": index, "content_block": start})
		for _, d := range deltas {
			st.tokens++
			st.send("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": d})
		}
		st.send("content_block_stop", object{"type": "content_block_stop", "index": index})
	}
	thought := 0
	if len(p.Thoughts) > 0 {
		var deltas []object
		for _, t := range p.Thoughts {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": t})
		}
		deltas = append(deltas, object{"type": "signature_delta", "signature": "c2lnbmF0dXJl"})
		block(object{"type": "thinking", "thinking": "", "signature": ""}, deltas...)
		thought = len(deltas)
	}
	if p.Redacted != "" {
		block(object{"type": "redacted_thinking", "data": p.Redacted})
	}
	if len(p.Texts) > 0 {
		if p.Hang || p.Cut || p.Fail {
			index++
			st.send("content_block_start", object{"type": "content_block_start", "index": index, "content_block": object{"type": "text", "text": ""}})
			for _, t := range p.Texts {
				st.send("content_block_delta", object{"type": "content_block_delta", "index": index, "delta": object{"type": "text_delta", "text": t}})
			}
		} else {
			var deltas []object
			for _, t := range p.Texts {
				deltas = append(deltas, object{"type": "text_delta", "text": t})
			}
			block(object{"type": "text", "text": ""}, deltas...)
		}
	}
	if st.trouble() {
		return
	}
	if p.Fail {
		st.send("error", object{"type": "error", "error": object{"type": p.Type, "message": p.Message}})
		return
	}
	for i, c := range p.Calls {
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		for _, piece := range st.args(i) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": piece})
		}
		block(object{"type": "tool_use", "id": st.callID(), "name": c.Name, "input": object{}}, deltas...)
	}
	stop := p.Stop
	if stop == "" {
		stop = "end_turn"
		if len(p.Calls) > 0 {
			stop = "tool_use"
		}
	}
	st.send("message_delta", object{"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": object{"output_tokens": st.tokens, "output_tokens_details": object{"thinking_tokens": thought}}})
	st.send("message_stop", object{"type": "message_stop"})
}
