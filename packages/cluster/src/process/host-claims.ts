import { readFile } from 'node:fs/promises';
import { createServer, type AddressInfo, type ListenOptions, type Server } from 'node:net';

/** The maximum number of free ports to try, in case other processes claim each of them. */
const maxAttempts = 100;

/**
 * Names that one process of this network namespace holds at a time, such as a port or a range of addresses. The kernel releases a name when the
 * process ends, however it ends. Names are abstract sockets, which only Linux has; elsewhere every claim succeeds.
 */
export class HostClaims {
  readonly #held = new Map<string, Server>();

  /** Claims a name. Returns false if another process, or another instance in this process, holds it. */
  async claim(name: string): Promise<boolean> {
    if (process.platform !== 'linux') return true;
    const server = createServer((socket) => socket.destroy());
    server.unref();
    const claimed = await listen(server, { path: `\0oarlock/${name}` });
    if (claimed) this.#held.set(name, server);
    return claimed;
  }

  /** Returns the names with a prefix that processes of this network namespace hold, this one included. */
  async list(prefix: string): Promise<readonly string[]> {
    if (process.platform !== 'linux') return [];
    const marks = (await readFile('/proc/net/unix', 'utf8')).split('\n').flatMap((line) => / @oarlock\/([^@]+)/.exec(line)?.[1] ?? []);
    return marks.filter((name) => name.startsWith(prefix));
  }

  /** Claims a TCP port on which a server can listen at `address`: the preferred one, or else any free port. */
  async claimPort(preferred: number | undefined, address: string): Promise<number> {
    if (preferred !== undefined && (await this.#claimedPort(preferred, address))) return preferred;
    for (let attempt = 0; attempt < maxAttempts; attempt++) {
      const port = await freePort(address);
      if (await this.#claimedPort(port, address)) return port;
    }
    throw new Error(`there is no free port at ${address}`);
  }

  release(): void {
    for (const server of this.#held.values()) server.close();
    this.#held.clear();
  }

  async #claimedPort(port: number, address: string): Promise<boolean> {
    if (!(await this.claim(`tcp/${port}`))) return false;
    const probe = createServer();
    if (await listen(probe, { host: address, port, exclusive: true })) {
      await new Promise((closed) => {
        probe.close(closed);
      });
      return true;
    }
    this.#held.get(`tcp/${port}`)?.close();
    this.#held.delete(`tcp/${port}`);
    return false;
  }
}

/** Starts to listen. Returns false if the address is in use. Other errors are left to the server that will use the address, which reports them. */
function listen(server: Server, options: ListenOptions): Promise<boolean> {
  return new Promise((resolve) => {
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code !== 'EADDRINUSE'));
    server.listen(options, () => resolve(true));
  });
}

/** Returns a port that is free now. The server's URL is written to files before the server listens, so the port must be known. */
export function freePort(address: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, address, () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
