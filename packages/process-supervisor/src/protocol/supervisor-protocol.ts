import type {
  ContainerConfig,
  ContainerStats,
  ContainerStatus,
  LinuxResources,
  PodSandboxConfig,
  PodSandboxStatus,
  RuntimeErrorCode,
  RuntimeEvent,
} from '@oarlock/spi/runtime';
import type { Isolation } from './isolation.ts';

/**
 * The protocol between driver and supervisor on a unix socket. The first line of each connection is a `Hello`; the response is
 * a `Welcome`. A control connection continues with JSON, one line per message: each request is answered once, in any order, with
 * events in between. A session (exec, attach, port-forward) continues with frames (session-frames.ts) and ends with its connection.
 */
export const protocolVersion = 2;
/** Name of the socket in the data directory of the supervisor. */
export const socketName = 'supervisor.sock';

export type Hello =
  | { readonly protocol: number; readonly role: 'control' }
  | { readonly protocol: number; readonly role: 'session'; readonly session: SessionRequest };
export type Welcome = { readonly welcome: SupervisorInfo } | { readonly ending: true } | ErrorResponse;
export interface ErrorResponse {
  readonly error: { readonly code: RuntimeErrorCode; readonly message: string };
}

export interface SupervisorInfo {
  readonly protocol: number;
  readonly pid: number;
  /** How containers are isolated. Absent in supervisors of releases that do not isolate. */
  readonly isolation?: Isolation;
  /** What containers do not get on this machine, for `status`. */
  readonly notes: readonly string[];
}

export type SessionRequest =
  | {
      readonly kind: 'exec';
      readonly containerId: string;
      readonly command: readonly string[];
      readonly tty: boolean;
      readonly stdin: boolean;
    }
  | { readonly kind: 'attach'; readonly containerId: string; readonly stdin: boolean; readonly stdout: boolean; readonly stderr: boolean }
  /** To 127.0.0.1, then ::1, inside the sandbox's network namespace. */
  | { readonly kind: 'forward'; readonly sandboxId: string; readonly port: number };

/** A stored sandbox. */
export interface SandboxRecord extends PodSandboxStatus {
  readonly config: PodSandboxConfig;
  /** The path of the sandbox's network namespace; absent if the sandbox shares the host's namespace. */
  readonly netns?: string;
  /** The boot id of the machine when the sandbox was created. */
  readonly boot: string;
}

/** Arguments and result of each request. */
export interface Calls {
  'sandbox.create': {
    in: {
      readonly id: string;
      readonly config: PodSandboxConfig;
      readonly ips: readonly string[];
      readonly netns?: string;
      readonly ready: boolean;
    };
    out: SandboxRecord;
  };
  'sandbox.ready': { in: { readonly id: string; readonly ips: readonly string[] }; out: null };
  'sandbox.get': { in: { readonly id: string }; out: SandboxRecord };
  'sandbox.list': { in: Record<string, never>; out: readonly SandboxRecord[] };
  /** Stops the containers of a sandbox, with a grace period if `graceMs` is positive. Returns null if the sandbox does not exist. */
  'sandbox.stop': { in: { readonly id: string; readonly graceMs: number }; out: SandboxRecord | null };
  'sandbox.remove': { in: { readonly id: string }; out: null };
  /** Creates a container and returns its id. `prepared` is stored for the launcher of the runtime. */
  'container.create': {
    in: {
      readonly sandboxId: string;
      readonly config: ContainerConfig;
      readonly id?: string;
      readonly imageRef?: string;
      readonly prepared?: unknown;
    };
    out: string;
  };
  'container.start': { in: { readonly id: string }; out: null };
  'container.stop': { in: { readonly id: string; readonly graceMs: number }; out: null };
  'container.remove': { in: { readonly id: string }; out: null };
  'container.get': { in: { readonly id: string }; out: ContainerStatus };
  'container.list': { in: { readonly sandboxId?: string }; out: readonly ContainerStatus[] };
  'container.update': { in: { readonly id: string; readonly resources: LinuxResources }; out: null };
  'container.reopenLog': { in: { readonly id: string }; out: null };
  /** Returns the stats of running containers, or of one container if `id` is set. */
  'container.stats': { in: { readonly id?: string; readonly sandboxId?: string }; out: readonly ContainerStats[] };
  /** Ends the supervisor after its response. Rejected while containers run. */
  shutdown: { in: Record<string, never>; out: null };
}
export type CallName = keyof Calls;

export interface Request {
  readonly id: number;
  readonly call: CallName;
  readonly args: unknown;
}
export type Response = { readonly id: number; readonly result: unknown } | ({ readonly id: number } & ErrorResponse);
export type FromSupervisor = Response | { readonly event: RuntimeEvent };

/** An error of the supervisor, which the driver rethrows as a RuntimeError. */
export class SupervisorError extends Error {
  override readonly name = 'SupervisorError';
  readonly code: RuntimeErrorCode;
  constructor(code: RuntimeErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The maximum length of a message, in bytes. A container's config with the largest environment that the API accepts is far smaller. */
export const maxLineBytes = 16 * 1024 * 1024;

/** Splits a stream of bytes into lines. @throws RangeError if one is longer than `maxLineBytes` */
export class Lines {
  #rest: Buffer[] = [];
  #length = 0;

  /** Returns the lines that the chunk completes, without their newlines. */
  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#rest.push(chunk.subarray(start, end));
      lines.push(Buffer.concat(this.#rest).toString('utf8'));
      this.#rest = [];
      this.#length = 0;
      start = end + 1;
    }
    if (start < chunk.length) {
      this.#rest.push(chunk.subarray(start));
      this.#length += chunk.length - start;
      if (this.#length > maxLineBytes) throw new RangeError('a message is longer than 16 MiB');
    }
    return lines;
  }

  /** Returns the bytes after the last newline, and clears them. */
  take(): Buffer {
    const rest = Buffer.concat(this.#rest);
    this.#rest = [];
    this.#length = 0;
    return rest;
  }
}
