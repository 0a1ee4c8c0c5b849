import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises';
import { createServer, connect, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { NetworkError } from '@oarlock/spi/network';
import { conflistOf, type Conflist } from './conflist.ts';

/** Prefix of the names of the sockets on which owners of a directory answer. libcni reads no file with such a name. */
const prefix = '.oarlock-owner-';
const answerTimeoutMs = 2_000;
const maxAnswerLength = 4_096;
/** Interval and limit of the wait for a process that claims at the same time, in milliseconds. */
const [pollMs, waitMs] = [20, 10_000];

type State = 'claiming' | 'owner';
interface Claimant {
  readonly name: string;
  readonly state: State;
  readonly owner: string;
}

/**
 * The claim of a node on a directory of conflists, while its process runs. Processes in other network namespaces see it, because they share the file
 * system: the claim is a unix socket with a path, which answers where the plugins of the owner keep their data, and which the kernel closes when the
 * process ends. Each claim has a file of its own, so that removing the file of a process that has ended cannot remove another claim.
 */
export class ConflistClaim {
  readonly #server: Server;
  readonly #directory: FileHandle;
  readonly #path: string;

  private constructor(server: Server, directory: FileHandle, path: string) {
    this.#server = server;
    this.#directory = directory;
    this.#path = path;
  }

  /**
   * Claims a directory, which instances of the plugins of one node share. @throws NetworkError if the process of another node owns it: container runtimes
   * use the first conflist of a directory, whichever cluster wrote it
   */
  static async take({ directory, file, dataDir }: Conflist): Promise<ConflistClaim> {
    await mkdir(directory, { recursive: true, mode: 0o755 });
    const handle = await open(directory);
    const owner = dirname(dataDir);
    const name = `${prefix}${randomUUID()}`;
    let state: State = 'claiming';
    const server = createServer((socket) => {
      socket.on('error', () => undefined); // the client has ended
      socket.end(`${state}\n${owner}`);
    });
    server.unref();
    const claim = new ConflistClaim(server, handle, join(directory, name));
    try {
      // a socket that others see accepts connections already, or its process has ended
      server.listen(pathIn(handle, `.${name}`));
      await once(server, 'listening');
      // before the others are listed: of two claims at the same time, at least one sees the other
      await rename(join(directory, `.${name}`), claim.#path);
      const other = await ownerBefore({ handle, directory, name, owner });
      if (other !== undefined) throw new NetworkError('InvalidConfig', await rejection({ directory, file }, other));
      state = 'owner';
      return claim;
    } catch (error) {
      await claim.release();
      throw error;
    }
  }

  async release(): Promise<void> {
    await rm(this.#path, { force: true });
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await this.#directory.close();
  }
}

/** A path that is never too long for a socket. */
const pathIn = (directory: FileHandle, name: string): string => `/proc/self/fd/${directory.fd}/${name}`;

interface OwnClaim {
  readonly handle: FileHandle;
  readonly directory: string;
  readonly name: string;
  readonly owner: string;
}

/** Returns the other node that owns the directory, or undefined. Of nodes that claim it at the same time, the one with the first name gets it. */
async function ownerBefore({ handle, directory, name, owner }: OwnClaim): Promise<string | undefined> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    const others = (await claimants(handle, directory)).filter((each) => each.name !== name && each.owner !== owner);
    const before = others.find((each) => each.state === 'owner' || each.name < name);
    if (before !== undefined) return before.owner;
    const [later] = others;
    if (later === undefined) return undefined;
    if (performance.now() > deadline) return later.owner;
    await delay(pollMs);
  }
}

/** Returns the claims of processes that run, and removes the sockets of others. */
async function claimants(handle: FileHandle, directory: string): Promise<readonly Claimant[]> {
  const names = (await readdir(directory)).filter((name) => name.startsWith(prefix));
  const found = await Promise.all(
    names.map(async (name): Promise<Claimant | undefined> => {
      const answer = await answerAt(pathIn(handle, name));
      if (answer === undefined) await rm(join(directory, name), { force: true });
      const [state, owner] = answer?.split('\n') ?? [];
      return owner === undefined ? undefined : { name, state: state === 'claiming' ? 'claiming' : 'owner', owner };
    }),
  );
  return found.filter((claimant) => claimant !== undefined);
}

/** Returns the answer at a path, or undefined if its process has ended. */
async function answerAt(path: string): Promise<string | undefined> {
  const socket = connect({ path, signal: AbortSignal.timeout(answerTimeoutMs) });
  let text = '';
  try {
    for await (const chunk of socket.setEncoding('utf8')) {
      text += chunk;
      if (text.length > maxAnswerLength) break;
    }
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException;
    if (code === 'ECONNREFUSED' || code === 'ECONNRESET' || code === 'ENOENT') return undefined;
    if (name === 'AbortError' || name === 'TimeoutError') return 'owner\nunknown (its process does not answer)';
    throw error;
  }
  return text.slice(0, maxAnswerLength);
}

async function rejection({ directory, file }: Pick<Conflist, 'directory' | 'file'>, owner: string): Promise<string> {
  const conflist = (await conflistOf(directory, owner)) ?? file;
  return `the CNI configuration ${join(directory, conflist)} belongs to another cluster, whose plugins keep their data in ${owner}: container runtimes that read ${directory} would connect its pods to the network of this cluster. Set confDir of the network plugin to a directory of this cluster's container daemon, or to null if only runtime-oci or runtime-process run on this node`;
}
