import type { Duplex } from 'node:stream';
import type { Clock } from '@oarlock/primitives/clock';
import { RuntimeError, type RuntimeCallOptions, type Streams } from '@oarlock/spi/runtime';
import { forwardedStream, runSession } from './client-sessions.ts';
import { collectedOutput } from '@oarlock/primitives/collected-output';
import type { SandboxRecord } from '../protocol/supervisor-protocol.ts';
import { toRuntimeError } from './runtime-error.ts';
import { dial } from '../supervisor/server-sessions.ts';
import type { SupervisorClient } from './supervisor-client.ts';

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

/** Runs commands in containers and forwards streams to containers and ports of pods. Each is a session of the supervisor, which owns the processes. */
export class DriverSessions {
  readonly #supervisor: SupervisorClient;
  readonly #clock: Clock;

  constructor(supervisor: SupervisorClient, clock: Clock) {
    this.#supervisor = supervisor;
    this.#clock = clock;
  }

  async execSync(
    id: string,
    { command, timeoutSeconds }: ExecSyncRequest,
    { signal }: RuntimeCallOptions = {},
  ): Promise<{ readonly stdout: Buffer; readonly stderr: Buffer; readonly exitCode: number }> {
    const stdout = collectedOutput();
    const stderr = collectedOutput();
    const deadline = new AbortController();
    const timer =
      timeoutSeconds > 0
        ? this.#clock.after(timeoutSeconds * 1000, () =>
            deadline.abort(new RuntimeError('DeadlineExceeded', `the command did not end within ${timeoutSeconds} s`)),
          )
        : undefined;
    try {
      const exitCode = await this.exec(
        id,
        { command, streams: { tty: false, stdout: stdout.stream, stderr: stderr.stream } },
        { signal: signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal },
      );
      return { stdout: stdout.bytes(), stderr: stderr.bytes(), exitCode };
    } finally {
      timer?.cancel();
    }
  }

  async exec(id: string, { command, streams }: ExecRequest, { signal }: RuntimeCallOptions = {}): Promise<number> {
    const opened = await this.#supervisor.session(
      { kind: 'exec', containerId: id, command, tty: streams.tty, stdin: streams.stdin !== undefined },
      signal,
    );
    return (await runSession(opened, streams, { kills: true, signal })).exitCode ?? 0;
  }

  async attach(id: string, streams: Streams, { signal }: RuntimeCallOptions = {}): Promise<void> {
    const opened = await this.#supervisor.session(
      {
        kind: 'attach',
        containerId: id,
        stdin: streams.stdin !== undefined,
        stdout: streams.stdout !== undefined,
        stderr: streams.stderr !== undefined,
      },
      signal,
    );
    await runSession(opened, streams, { kills: false, signal });
  }

  async portForward(
    { id: sandboxId, netns, ips, state }: SandboxRecord,
    port: number,
    { signal }: RuntimeCallOptions = {},
  ): Promise<Duplex> {
    if (state !== 'READY') throw new RuntimeError('FailedPrecondition', `sandbox ${sandboxId} is not ready`);
    if (netns !== undefined) return forwardedStream(await this.#supervisor.session({ kind: 'forward', sandboxId, port }, signal));
    return dial([...new Set([...ips, '127.0.0.1', '::1'])], { port, sandboxId, signal }).catch((error: unknown) => {
      throw toRuntimeError(error);
    });
  }
}
