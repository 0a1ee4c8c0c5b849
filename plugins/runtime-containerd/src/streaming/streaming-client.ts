import type { Duplex } from 'node:stream';
import type { RuntimeCallOptions, Streams } from '@oarlock/spi/runtime';
import type { CriClient } from '../cri/cri-client.ts';
import type { ExecProcesses } from './exec-processes.ts';
import { portForward } from './port-forward.ts';
import { remoteCommand } from './remote-command.ts';

/** How long to wait for the response of the runtime after a timeout that the runtime itself enforces. */
const responseGraceMs = 1_000;

/** The command and its timeout in seconds. */
export interface ExecSyncRequest {
  readonly command: readonly string[];
  readonly timeoutSeconds: number;
}

/** The command and the streams it is connected to. */
export interface ExecRequest {
  readonly command: readonly string[];
  readonly streams: Streams;
}

/** Runs exec, attach and port-forward sessions. CRI returns the URL of each session, which the runtime's streaming server serves. */
export class StreamingClient {
  readonly #client: CriClient;
  readonly #execs: ExecProcesses;
  readonly #idleMs: number;

  /** @param idleMs the time without traffic after which a session is closed */
  constructor(client: CriClient, execs: ExecProcesses, idleMs: number) {
    this.#client = client;
    this.#execs = execs;
    this.#idleMs = idleMs;
  }

  async execSync(
    id: string,
    { command, timeoutSeconds }: ExecSyncRequest,
    call: RuntimeCallOptions = {},
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    // the runtime counts whole seconds; 0 means no timeout
    const timeout = timeoutSeconds > 0 ? Math.max(1, Math.ceil(timeoutSeconds)) : 0;
    // containerd before 1.6.21 kills the command in time, but then waits for other processes that hold its output
    const deadline = timeout > 0 ? timeout * 1000 + responseGraceMs : Number.POSITIVE_INFINITY;
    return this.#execs.runSession(id, call.signal, () =>
      this.#client.cri('ExecSync', { containerId: id, cmd: command, timeout }, call, deadline),
    );
  }

  async exec(id: string, { command, streams }: ExecRequest, call: RuntimeCallOptions = {}): Promise<number> {
    return this.#execs.runSession(id, call.signal, async (overdue) => {
      const request = {
        containerId: id,
        cmd: command,
        tty: streams.tty,
        stdin: streams.stdin !== undefined,
        stdout: true,
        stderr: !streams.tty && streams.stderr !== undefined,
      };
      const { url } = await this.#client.cri<{ url: string }>('Exec', request, call);
      return remoteCommand(url, streams, { ...this.#session(call), overdue });
    });
  }

  async attach(id: string, streams: Streams, call: RuntimeCallOptions = {}): Promise<void> {
    const request = {
      containerId: id,
      tty: streams.tty,
      stdin: streams.stdin !== undefined,
      stdout: true,
      stderr: !streams.tty && streams.stderr !== undefined,
    };
    const { url } = await this.#client.cri<{ url: string }>('Attach', request, call);
    await remoteCommand(url, streams, this.#session(call));
  }

  async portForward(sandboxId: string, port: number, call: RuntimeCallOptions = {}): Promise<Duplex> {
    const { url } = await this.#client.cri<{ url: string }>('PortForward', { podSandboxId: sandboxId, port: [port] }, call);
    return portForward(url, port, this.#session(call));
  }

  #session({ signal }: RuntimeCallOptions) {
    return { signal, idleMs: this.#idleMs };
  }
}
