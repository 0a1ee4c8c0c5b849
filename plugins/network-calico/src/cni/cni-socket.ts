import { createHash } from 'node:crypto';
import { chmod, mkdir, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { CniError, type CniCommand } from '@oarlock/network-cni/cni/protocol';
import { pluginType, type CniHandler } from './cni-handler.ts';

const longestRequest = 1 << 20;
const timeoutMs = 120_000;
const connections = 256;
/** The maximum length of the path of a Unix socket, without the final NUL (sockaddr_un). */
const longestPath = 107;
const commands: ReadonlySet<string> = new Set<CniCommand>(['ADD', 'CHECK', 'DEL', 'GC', 'STATUS', 'VERSION']);

/** Returns a socket path in the plugin's data directory, or a shorter path if that path is too long for a socket. */
export function socketPath(dataDir: string): string {
  const path = join(dataDir, 'cni.sock');
  if (Buffer.byteLength(path) <= longestPath) return path;
  return `/run/oarlock-calico/${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}.sock`;
}

/** The handler of CNI commands that arrive on the socket. */
export interface CniSocketOptions {
  readonly handler: CniHandler;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Receives the CNI calls that the executable forwards. Only root can connect. */
export class CniSocket {
  readonly #handler: CniHandler;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #open = new Set<Socket>();
  readonly #server: Server;
  readonly path: string;

  constructor(path: string, { handler, clock, log }: CniSocketOptions) {
    this.path = path;
    this.#handler = handler;
    this.#clock = clock;
    this.#log = log;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#serve(socket));
    this.#server.maxConnections = connections;
  }

  /** Starts to listen, unless the socket already listens. */
  async listen(): Promise<void> {
    if (this.#server.listening) return;
    await mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    await rm(this.path, { force: true }); // left by a killed process
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.path, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    this.#server.on('error', (error) => this.#log.error({ err: error }, 'the CNI socket failed: calls of runtimes are not accepted'));
    await chmod(this.path, 0o600);
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#open) socket.destroy();
    await closed;
  }

  #serve(socket: Socket): void {
    this.#open.add(socket);
    const parts: Buffer[] = [];
    let size = 0;
    const timer = this.#clock.after(timeoutMs, () => socket.destroy());
    socket.on('error', () => socket.destroy()); // the caller disconnected
    socket.once('close', () => {
      timer.cancel();
      this.#open.delete(socket);
    });
    socket.on('data', (part: Buffer) => {
      size += part.length;
      if (size > longestRequest) socket.destroy();
      else parts.push(part);
    });
    socket.once('end', () => {
      void this.#answer(Buffer.concat(parts).toString()).then((text) => socket.end(text));
    });
  }

  async #answer(request: string): Promise<string> {
    try {
      const [command = '', containerId = '', ifName = '', netns = '', args = '', ...rest] = request.split('\0');
      if (!commands.has(command))
        throw new CniError(pluginType, {
          command: 'VERSION',
          cniCode: 4,
          message: `not a CNI_COMMAND: ${JSON.stringify(command.slice(0, 100))}`,
        });
      const config = parse(rest.join('\0'), command as CniCommand);
      const printed = await this.#handler.handleForRuntime(command as CniCommand, { containerId, ifName, netns, args, config });
      return `0\n${printed === undefined ? '' : `${JSON.stringify(printed)}\n`}`;
    } catch (error) {
      const code = error instanceof CniError ? error.cniCode : 999;
      return `1\n${JSON.stringify({ cniVersion: '1.0.0', code, msg: (error as Error).message })}\n`;
    }
  }
}

function parse(text: string, command: CniCommand): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Readonly<Record<string, unknown>>;
  } catch {
    // reported below
  }
  throw new CniError(pluginType, { command, cniCode: 6, message: 'the network configuration is not a JSON object' });
}
