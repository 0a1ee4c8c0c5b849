import type { Duplex } from 'node:stream';
import type { RuntimeCall, Streams } from '@oarlock/spi/runtime';
import type { CriChannel } from './cri-channel.ts';
import type { ExecProcesses } from './exec-processes.ts';
import { portForward } from './port-forward.ts';
import { remoteCommand } from './remote-command.ts';

/** What a runtime gets to answer in, after a timeout of its own. */
const answerMs = 1_000;

/** Commands in containers, and streams to them and to ports of sandboxes: asked for over CRI, and carried by the runtime's streaming server. */
export class CriSessions {
  readonly #channel: CriChannel;
  readonly #execs: ExecProcesses;
  readonly #idleMs: number;

  /** `idleMs`: after which a stream without traffic ends. */
  constructor(channel: CriChannel, execs: ExecProcesses, idleMs: number) {
    this.#channel = channel;
    this.#execs = execs;
    this.#idleMs = idleMs;
  }

  async execSync(
    id: string,
    command: readonly string[],
    timeoutSeconds: number,
    call: RuntimeCall = {},
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    // the runtime counts in whole seconds, and 0 is forever
    const timeout = timeoutSeconds > 0 ? Math.max(1, Math.ceil(timeoutSeconds)) : 0;
    // containerd before 1.6.21 kills the command in time, but then waits for whoever else holds its output
    const deadline = timeout > 0 ? timeout * 1000 + answerMs : Number.POSITIVE_INFINITY;
    return this.#execs.around(id, call.signal, () =>
      this.#channel.cri('ExecSync', { containerId: id, cmd: command, timeout }, call, deadline),
    );
  }

  async exec(id: string, command: readonly string[], streams: Streams, call: RuntimeCall = {}): Promise<number> {
    return this.#execs.around(id, call.signal, async (overdue) => {
      const request = {
        containerId: id,
        cmd: command,
        tty: streams.tty,
        stdin: streams.stdin !== undefined,
        stdout: true,
        stderr: !streams.tty && streams.stderr !== undefined,
      };
      const { url } = await this.#channel.cri<{ url: string }>('Exec', request, call);
      return remoteCommand(url, streams, { ...this.#session(call), overdue });
    });
  }

  async attach(id: string, streams: Streams, call: RuntimeCall = {}): Promise<void> {
    const request = {
      containerId: id,
      tty: streams.tty,
      stdin: streams.stdin !== undefined,
      stdout: true,
      stderr: !streams.tty && streams.stderr !== undefined,
    };
    const { url } = await this.#channel.cri<{ url: string }>('Attach', request, call);
    await remoteCommand(url, streams, this.#session(call));
  }

  async portForward(sandboxId: string, port: number, call: RuntimeCall = {}): Promise<Duplex> {
    const { url } = await this.#channel.cri<{ url: string }>('PortForward', { podSandboxId: sandboxId, port: [port] }, call);
    return portForward(url, port, this.#session(call));
  }

  #session({ signal }: RuntimeCall) {
    return { signal, idleMs: this.#idleMs };
  }
}
