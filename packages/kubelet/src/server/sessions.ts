import { setMaxListeners } from 'node:events';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import type { PodWorker } from '../pod-worker.ts';
import { findContainer } from '../pods.ts';
import { HttpProblem } from './http-problem.ts';
import { servePortForward, type ForwardTarget } from './port-forward.ts';
import { serveWebSocketForward } from './port-forward-websocket.ts';
import { serveSpdyCommand, type SpdyCommandProtocol } from './remote-command-spdy.ts';
import { serveWebSocketCommand } from './remote-command-websocket.ts';
import type { RemoteCommandOptions, RunCommand } from './remote-command.ts';
import type { Upgraded } from './streaming.ts';

const maxSessions = 1000;
/** Of one WebSocket whose channels are numbered in a byte. */
const maxPorts = 100;
const truthy = (text: string | null) => text === '1' || text === 'true';

/** Commands and forwarded ports over connections that were upgraded for them. */
export class Sessions {
  readonly #sitting: { readonly stopped: AbortSignal; readonly clock: Clock };
  readonly #log: Logger;
  #count = 0;

  constructor({ signal, clock, log }: { readonly signal: AbortSignal; readonly clock: Clock; readonly log: Logger }) {
    setMaxListeners(0, signal); // each session listens
    this.#sitting = { stopped: signal, clock };
    this.#log = log;
  }

  /** @throws HttpProblem when there are enough */
  checkRoom(): void {
    if (this.#count >= maxSessions) throw new HttpProblem(503, 'too many sessions');
  }

  /** Counts a session while it lasts. */
  sit(session: Promise<void>): void {
    this.#count += 1;
    session
      .catch((error: unknown) => this.#log.warn({ err: error }, 'a streaming session failed'))
      .finally(() => {
        this.#count -= 1;
      });
  }

  /** What is to be done once the connection is upgraded. @throws HttpProblem */
  command(worker: PodWorker, name: string, area: 'exec' | 'attach', query: URLSearchParams): (upgraded: Upgraded) => Promise<void> {
    const { record } = worker;
    const status = record.state.latest(name);
    if (status?.state !== 'RUNNING' || !record.runtime) throw new HttpProblem(500, `container not found ("${name}")`);
    const placed = findContainer(record.pod, name);
    const command = query.getAll('command');
    if (area === 'exec' && command.length === 0) throw new HttpProblem(400, 'you must specify at least 1 command');
    const asked = (short: string, long: string) => truthy(query.get(short)) || truthy(query.get(long));
    const tty = area === 'attach' ? placed?.container.tty === true && truthy(query.get('tty')) : truthy(query.get('tty'));
    const options: RemoteCommandOptions = {
      stdin: asked('input', 'stdin'),
      stdout: asked('output', 'stdout'),
      stderr: asked('error', 'stderr') && !tty,
      tty,
    };
    if (!options.stdin && !options.stdout && !options.stderr)
      throw new HttpProblem(400, 'you must specify at least 1 of stdin, stdout, stderr');
    const { driver } = record.runtime.hub;
    const run: RunCommand = async (streams, signal) => {
      if (area === 'exec') return driver.exec(status.id, command, streams, { signal });
      await driver.attach(status.id, streams, { signal });
      return 0;
    };
    const sitting = this.#sitting;
    return (upgraded) =>
      upgraded.over === 'websocket'
        ? serveWebSocketCommand(upgraded, options, sitting, run)
        : serveSpdyCommand({ ...upgraded, protocol: upgraded.protocol as SpdyCommandProtocol }, options, sitting, run);
  }

  /** What is to be done once the connection is upgraded. @throws HttpProblem */
  forward({ record }: PodWorker, query: URLSearchParams): (upgraded: Upgraded) => Promise<void> {
    const sandbox = record.state.readySandbox;
    if (sandbox === undefined || !record.runtime) throw new HttpProblem(500, `pod not found ("${record.name}")`);
    const { driver } = record.runtime.hub;
    const target: ForwardTarget = {
      name: `${record.namespace}_${record.name}`,
      uid: record.uid,
      connect: (port, signal) => driver.portForward(sandbox.id, port, { signal }),
    };
    const ports = query
      .getAll('port')
      .flatMap((text) => text.split(','))
      .map(Number)
      .filter((port) => Number.isInteger(port) && port > 0 && port < 65_536)
      .slice(0, maxPorts);
    const sitting = this.#sitting;
    return (upgraded) =>
      upgraded.over === 'websocket' ? serveWebSocketForward(upgraded, ports, target, sitting) : servePortForward(upgraded, target, sitting);
  }
}
