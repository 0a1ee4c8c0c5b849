import { setMaxListeners } from 'node:events';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { PodWorker } from '../../pod/worker/pod-worker.ts';
import { findContainer } from '../../pod-util/pods.ts';
import { HttpError } from '../http/http-error.ts';
import { servePortForward, type ForwardTarget } from './port-forward.ts';
import { serveWebSocketForward } from './port-forward-websocket.ts';
import { serveSpdyCommand, type SpdyCommandProtocol } from './remote-command-spdy.ts';
import { serveWebSocketCommand } from './remote-command-websocket.ts';
import { IdleTimeout } from './internal/idle-timeout.ts';
import type { RemoteCommandOptions, RunCommand } from './internal/remote-command.ts';
import type { SessionOptions } from './internal/session-options.ts';
import type { Upgraded } from './streaming-upgrades.ts';

const maxSessions = 1000;
/** The maximum number of ports per WebSocket, because a channel number has one byte. */
const maxPorts = 100;
const truthy = (text: string | null) => text === '1' || text === 'true';

/** A request to exec into or attach to a container. */
export interface StreamingCommand {
  readonly name: string;
  readonly area: 'exec' | 'attach';
  readonly query: URLSearchParams;
}

interface StreamingSessionsOptions {
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly log: Logger;
  /** How long a session may transfer nothing, in milliseconds; 0 for no limit. */
  readonly idleTimeoutMs: number;
}

/** Creates exec, attach and port-forward sessions, limits the number of concurrent sessions, and ends idle ones. */
export class StreamingSessions {
  readonly #options: StreamingSessionsOptions;
  #count = 0;

  constructor(options: StreamingSessionsOptions) {
    setMaxListeners(0, options.signal); // each session adds a listener
    this.#options = options;
  }

  /** Checks the limit of concurrent sessions. @throws HttpError 503 if the limit is reached */
  checkSessionLimit(): void {
    if (this.#count >= maxSessions) throw new HttpError(503, 'too many sessions');
  }

  /** Counts a session as active until its promise settles. */
  track(session: Promise<void>): void {
    this.#count += 1;
    session
      .catch((error: unknown) => this.#options.log.warn({ err: error }, 'a streaming session failed'))
      .finally(() => {
        this.#count -= 1;
      });
  }

  /**
   * Returns the function that serves an exec or attach session on an upgraded connection.
   * @throws HttpError 500 if the container does not run, 400 if the query names no command or no stream
   */
  command(worker: PodWorker, { name, area, query }: StreamingCommand): (upgraded: Upgraded) => Promise<void> {
    const { record } = worker;
    const status = record.state.latestContainer(name);
    if (status?.state !== 'RUNNING' || !record.runtime) throw new HttpError(500, `container not found ("${name}")`);
    const specContainer = findContainer(record.pod, name);
    const command = query.getAll('command');
    if (area === 'exec' && command.length === 0) throw new HttpError(400, 'you must specify at least 1 command');
    const requests = (short: string, long: string) => truthy(query.get(short)) || truthy(query.get(long));
    const tty = area === 'attach' ? specContainer?.container.tty === true && truthy(query.get('tty')) : truthy(query.get('tty'));
    const options: RemoteCommandOptions = {
      stdin: requests('input', 'stdin'),
      stdout: requests('output', 'stdout'),
      stderr: requests('error', 'stderr') && !tty,
      tty,
    };
    if (!options.stdin && !options.stdout && !options.stderr)
      throw new HttpError(400, 'you must specify at least 1 of stdin, stdout, stderr');
    const { driver } = record.runtime.pleg;
    const run: RunCommand = async (streams, signal) => {
      if (area === 'exec') return driver.exec(status.id, command, streams, { signal });
      await driver.attach(status.id, streams, { signal });
      return 0;
    };
    return (upgraded) =>
      this.#untilIdle(upgraded, (session) =>
        upgraded.over === 'websocket'
          ? serveWebSocketCommand(upgraded, options, session, run)
          : serveSpdyCommand({ ...upgraded, protocol: upgraded.protocol as SpdyCommandProtocol }, options, session, run),
      );
  }

  /**
   * Serves a session, and closes its connection after the idle timeout. Each SPDY frame is activity, pings included, and each WebSocket message;
   * WebSocket pings, which clients send by themselves, are not.
   */
  async #untilIdle(upgraded: Upgraded, serve: (session: SessionOptions) => Promise<void>): Promise<void> {
    const { signal: stopped, clock, idleTimeoutMs: timeoutMs } = this.#options;
    const idle = new IdleTimeout({ clock, timeoutMs }, () => {
      if (upgraded.over === 'websocket') upgraded.socket.terminate();
      else upgraded.socket.destroy();
    });
    try {
      await serve({ stopped, clock, active: idle.active });
    } finally {
      idle.cancel();
    }
  }

  /**
   * Returns the function that serves a port-forward session on an upgraded connection.
   * @throws HttpError 500 if the pod has no ready sandbox, or an error for invalid ports in the query
   */
  forward({ record }: PodWorker, query: URLSearchParams): (upgraded: Upgraded) => Promise<void> {
    const sandbox = record.state.readySandbox;
    if (sandbox === undefined || !record.runtime) throw new HttpError(500, `pod not found ("${record.name}")`);
    const { driver } = record.runtime.pleg;
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
    return (upgraded) =>
      this.#untilIdle(upgraded, (session) =>
        upgraded.over === 'websocket'
          ? serveWebSocketForward(upgraded, { ports, target, session })
          : servePortForward(upgraded, target, session),
      );
  }
}
