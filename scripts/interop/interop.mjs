// The official TypeScript SDK as the editor: a real shim process, a real
// daemon, the built-in agent with its offline model. Every step is checked;
// the first one that is wrong ends the run with exit status 1.
//
//   node interop.mjs --shim PATH --cwd DIR
//
// The caller has set HERMESD_HOME (and HERMESD, if the daemon is not beside
// the shim) and stops the daemon afterwards.
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { parseArgs } from "node:util";
import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk/unstable";

const { values: flags } = parseArgs({ options: { shim: { type: "string" }, cwd: { type: "string" } } });
assert(flags.shim && flags.cwd, "usage: node interop.mjs --shim PATH --cwd DIR");
const { agent: A, client: C } = acp.methods;
const CWD = flags.cwd;

/** An editor made of the SDK's client side over one shim process. */
class Editor {
  updates = []; // every session/update, in the order the SDK dispatched it
  questions = []; // every session/request_permission
  #waiting = [];

  constructor(name, answer) {
    this.name = name;
    this.child = spawn(flags.shim, [], { stdio: ["pipe", "pipe", "pipe"], cwd: CWD });
    this.stderr = "";
    this.child.stderr.setEncoding("utf8").on("data", (text) => (this.stderr += text));
    this.exited = new Promise((done) => this.child.once("exit", (code, signal) => done({ code, signal })));
    this.connection = acp
      .client({ name: `interop-${name}` })
      .onNotification(C.session.update, ({ params }) => {
        this.updates.push(params);
        this.#look();
      })
      .onRequest(C.session.requestPermission, async ({ params, signal }) => {
        this.questions.push(params);
        this.#look();
        return answer(params, signal);
      })
      .onRequest(C.fs.readTextFile, ({ params }) => ({ content: readFileSync(params.path, "utf8") }))
      .onRequest(C.fs.writeTextFile, ({ params }) => {
        writeFileSync(params.path, params.content);
        return {};
      })
      .connect(acp.ndJsonStream(Writable.toWeb(this.child.stdin), Readable.toWeb(this.child.stdout)));
  }

  request(method, params) {
    return within(this.connection.agent.request(method, params), `${this.name}: ${method}`);
  }

  notify(method, params) {
    return this.connection.agent.notify(method, params);
  }

  initialize() {
    return this.request(A.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientInfo: { name: `interop-${this.name}`, version: "1.0.0" },
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: false },
    });
  }

  prompt(sessionId, text) {
    return this.request(A.session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  }

  /** The joined text of one kind of chunk, from the update numbered `from`. */
  text(kind = "agent_message_chunk", from = 0) {
    return this.updates
      .slice(from)
      .filter(({ update }) => update.sessionUpdate === kind)
      .map(({ update }) => update.content.text)
      .join("");
  }

  /** Resolves when what has been received so far satisfies `condition`. */
  until(condition, what) {
    return within(
      new Promise((done) => {
        this.#waiting.push({ condition, done });
        this.#look();
      }),
      `${this.name}: ${what}`,
    );
  }

  #look() {
    this.#waiting = this.#waiting.filter(({ condition, done }) => !(condition(this) && (done(), true)));
  }

  /** Closes stdin, as an editor does; the shim must follow and say nothing. */
  async leave() {
    this.child.stdin.end();
    const { code, signal } = await within(this.exited, `${this.name}: shim exits when stdin closes`);
    assert.deepEqual({ code, signal, stderr: this.stderr }, { code: 0, signal: null, stderr: "" });
  }
}

function within(promise, what, ms = 20_000) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`${what}: nothing within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function step(name, body) {
  try {
    const result = await body();
    console.log(`ok   ${name}`);
    return result;
  } catch (error) {
    console.log(`FAIL ${name}`);
    for (const e of editors) if (e.stderr) console.log(`     stderr of ${e.name}: ${e.stderr}`);
    throw error;
  }
}

const choose = (kind) => (params) => {
  const option = params.options.find((o) => o.kind === kind);
  assert(option, `no option of kind ${kind} in ${JSON.stringify(params.options)}`);
  return { outcome: { outcome: "selected", optionId: option.optionId } };
};

const editors = [];
function editor(name, answer = choose("allow_once")) {
  const made = new Editor(name, answer);
  editors.push(made);
  return made;
}

async function main() {
  const a = editor("a");

  const init = await step("initialize", async () => {
    const init = await a.initialize();
    assert.equal(init.protocolVersion, 1);
    assert.equal(init.agentCapabilities.loadSession, true);
    for (const key of ["list", "resume", "close", "delete"]) {
      assert(init.agentCapabilities.sessionCapabilities?.[key], `sessionCapabilities.${key} is not advertised`);
    }
    assert(init.agentInfo?.name && init.agentInfo?.version, "agentInfo");
    return init;
  });

  const { sessionId } = await step("session/new", async () => {
    const made = await a.request(A.session.new, { cwd: CWD, mcpServers: [] });
    assert.equal(typeof made.sessionId, "string");
    assert(made.modes.availableModes.some((m) => m.id === made.modes.currentModeId), "current mode is not available");
    return made;
  });

  await step("prompt", async () => {
    const { stopReason } = await a.prompt(sessionId, "say hello");
    assert.equal(stopReason, "end_turn");
    assert.match(a.text(), /hello/);
    assert(a.updates.every((u) => u.sessionId === sessionId));
  });

  await step("tool call with permission", async () => {
    const from = a.updates.length;
    const { stopReason } = await a.prompt(sessionId, "write made.txt\nby the tool\n.");
    assert.equal(stopReason, "end_turn");
    assert.equal(a.questions.length, 1);
    assert.match(readFileSync(join(CWD, "made.txt"), "utf8"), /^by the tool\n?$/);
    const id = a.questions[0].toolCall.toolCallId;
    const states = a.updates
      .slice(from)
      .map((u) => u.update)
      .filter((u) => u.toolCallId === id);
    assert.equal(states[0].sessionUpdate, "tool_call");
    assert(states.slice(1).every((u) => u.sessionUpdate === "tool_call_update"));
    assert.equal(states.findLast((u) => u.status).status, "completed");
  });

  await step("cancel", async () => {
    const from = a.updates.length;
    const answer = a.prompt(sessionId, "say waiting now\nsleep 60s\nsay never");
    await a.until((e) => e.text("agent_message_chunk", from).includes("waiting now"), "first chunk");
    await a.notify(A.session.cancel, { sessionId });
    assert.equal((await answer).stopReason, "cancelled");
    assert.doesNotMatch(a.text("agent_message_chunk", from), /never/);
  });

  const b = editor("b");
  await step("load in a second connection", async () => {
    await b.initialize();
    await b.request(A.session.load, { sessionId, cwd: CWD, mcpServers: [] });
    assert.match(b.text("user_message_chunk"), /say hello/);
    assert.match(b.text(), /hello/);
    assert(b.updates.some((u) => u.update.sessionUpdate === "tool_call" || u.update.sessionUpdate === "tool_call_update"));
  });

  await step("both see the next turn, in the same order", async () => {
    const [fromA, fromB] = [a.updates.length, b.updates.length];
    assert.equal((await b.prompt(sessionId, "say one two three four")).stopReason, "end_turn");
    const whole = (e, from) => e.text("agent_message_chunk", from).includes("one two three four");
    await a.until((e) => whole(e, fromA), "b's turn");
    assert(whole(b, fromB));
    assert.match(a.text("user_message_chunk", fromA), /say one two three four/);
    assert.equal(b.text("user_message_chunk", fromB), "", "the editor that asked is not told its own prompt");
  });

  await step("a rejected tool does not run", async () => {
    const r = editor("r", choose("reject_once"));
    await r.initialize();
    const { sessionId } = await r.request(A.session.new, { cwd: CWD, mcpServers: [] });
    assert.equal((await r.prompt(sessionId, "write refused.txt\nno\n.")).stopReason, "end_turn");
    assert(!existsSync(join(CWD, "refused.txt")));
    await r.request(A.session.close, { sessionId });
    await r.request(A.session.delete, { sessionId });
    await r.leave();
  });

  await step("mode and config option", async () => {
    const from = b.updates.length;
    await a.request(A.session.setMode, { sessionId, modeId: "dont_ask" });
    await b.until((e) => e.updates.slice(from).some((u) => u.update.currentModeId === "dont_ask"), "current_mode_update");
    const asked = a.questions.length + b.questions.length;
    assert.equal((await a.prompt(sessionId, "run echo unasked")).stopReason, "end_turn");
    assert.equal(a.questions.length + b.questions.length, asked);
  });

  await step("list", async () => {
    const seen = [];
    for (let cursor; ; ) {
      const page = await b.request(A.session.list, { cwd: CWD, ...(cursor ? { cursor } : {}) });
      seen.push(...page.sessions);
      if (!(cursor = page.nextCursor)) break;
    }
    const mine = seen.filter((s) => s.sessionId === sessionId);
    assert.equal(mine.length, 1);
    assert.equal(mine[0].cwd, CWD);
    assert(!Number.isNaN(Date.parse(mine[0].updatedAt)));
  });

  await step("resume in a third connection sends no history", async () => {
    const c = editor("c");
    await c.initialize();
    await c.request(A.session.resume, { sessionId, cwd: CWD });
    assert.equal((await c.prompt(sessionId, "say after resume")).stopReason, "end_turn");
    assert.doesNotMatch(c.text(), /hello/);
    assert.match(c.text(), /after resume/);
    await c.leave();
  });

  if (init.agentCapabilities.sessionCapabilities.fork) {
    await step("fork", async () => {
      const fork = await a.request(A.session.fork, { sessionId, cwd: CWD, mcpServers: [] });
      assert.notEqual(fork.sessionId, sessionId);
      assert.equal((await a.prompt(fork.sessionId, "say in the fork")).stopReason, "end_turn");
      assert(!b.updates.some((u) => u.sessionId === fork.sessionId));
      await a.request(A.session.delete, { sessionId: fork.sessionId });
    });
  }

  await step("MCP servers of the session are used", async () => {
    assert.deepEqual(init.agentCapabilities.mcpCapabilities, { http: true, sse: true });
    const server = (name, ...args) => ({
      name,
      command: process.execPath,
      args: [new URL(`./node_modules/@modelcontextprotocol/server-${name}/dist/index.js`, import.meta.url).pathname, ...args],
      env: [],
    });
    const m = editor("m");
    await m.initialize();
    const { sessionId } = await m.request(A.session.new, { cwd: CWD, mcpServers: [server("everything", "stdio"), server("filesystem", CWD)] });
    const script = `call everything get-sum {"a":2,"b":40}\ncall filesystem write_file ${JSON.stringify({ path: join(CWD, "mcp.txt"), content: "by a server" })}`;
    assert.equal((await m.prompt(sessionId, script)).stopReason, "end_turn");
    assert.match(m.text(), /The sum of 2 and 40 is 42/);
    assert.equal(readFileSync(join(CWD, "mcp.txt"), "utf8"), "by a server");
    assert.equal(m.questions.length, 2);
    await m.request(A.session.close, { sessionId });
    await m.request(A.session.delete, { sessionId });
    await m.leave();
  });

  await step("errors are JSON-RPC errors with their codes", async () => {
    const code = (promise) => promise.then(() => assert.fail("succeeded"), (error) => error.code);
    assert.equal(await code(a.request(A.session.load, { sessionId: "no-such", cwd: CWD, mcpServers: [] })), -32002);
    assert.equal(await code(a.request(A.session.new, { cwd: "relative", mcpServers: [] })), -32602);
    assert.equal(await code(a.request("_nobody/knows", {})), -32601);
  });

  await step("close and delete", async () => {
    await b.request(A.session.close, { sessionId });
    await a.request(A.session.delete, { sessionId });
    const { sessions } = await a.request(A.session.list, {});
    assert(!sessions.some((s) => s.sessionId === sessionId));
  });

  await step("the shims exit with their editors", async () => {
    await a.leave();
    await b.leave();
  });
}

try {
  await main();
} catch (error) {
  console.log(error?.stack ?? error);
  for (const e of editors) e.child.kill("SIGKILL");
  process.exit(1);
}
process.exit(0);
