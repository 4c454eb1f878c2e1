// An agent made of the official TypeScript SDK's agent side, for the daemon to
// run: it streams, asks permission, reads a file and is cancelled. It knows
// session/load and nothing of what was said before.
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const { agent: A, client: C } = acp.methods;
const stops = new Map(); // of running prompts, by session
let made = 0;

const chunk = (text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });

acp
  .agent({ name: "interop-agent" })
  .onRequest(A.initialize, () => ({ protocolVersion: 1, agentCapabilities: { loadSession: true }, agentInfo: { name: "interop-agent", version: "1" } }))
  .onRequest(A.session.new, () => ({ sessionId: `sdk-${process.pid}-${++made}` }))
  .onRequest(A.session.load, () => ({}))
  .onNotification(A.session.cancel, ({ params }) => stops.get(params.sessionId)?.())
  .onRequest(A.session.prompt, async ({ params, client }) => {
    const { sessionId } = params;
    const say = (update) => client.notify(C.session.update, { sessionId, update });
    const text = params.prompt.at(-1).text;
    if (text === "die") process.exit(5);
    if (text === "wait") {
      await say(chunk("waiting"));
      await new Promise((stop) => stops.set(sessionId, stop));
      return { stopReason: "cancelled" };
    }
    await say(chunk("hello "));
    await say({ sessionUpdate: "tool_call", toolCallId: "t1", title: "Look at it", kind: "read", status: "pending" });
    const { outcome } = await client.request(C.session.requestPermission, {
      sessionId,
      toolCall: { toolCallId: "t1", title: "Look at it" },
      options: [
        { optionId: "yes", name: "Yes", kind: "allow_once" },
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    });
    await say(chunk(outcome.outcome === "selected" ? outcome.optionId : outcome.outcome));
    const { content } = await client.request(C.fs.readTextFile, { sessionId, path: text });
    await say({ sessionUpdate: "tool_call_update", toolCallId: "t1", status: "completed", content: [{ type: "content", content: { type: "text", text: content } }] });
    return { stopReason: "end_turn" };
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
