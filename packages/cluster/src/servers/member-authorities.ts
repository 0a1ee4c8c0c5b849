import { Backoff } from '@oarlock/primitives/backoff';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageMember, StorageMembers } from '@oarlock/spi/storage-server';
import { caHash, caHashes } from '../pki/ca-hash.ts';
import type { ListedServer, MemberCAs } from './server-registry.ts';

/** Returns the hashes of the CAs that the member of this server uses. */
export async function memberCAsOf(members: StorageMembers): Promise<MemberCAs> {
  const { signing, trusted } = await members.authorities();
  return { signing: caHash(signing), trusted: caHashes(trusted) };
}

/**
 * Returns the names of the servers whose members do not use exactly the given CAs yet, also of servers that do not run: their members continue with the
 * CAs that they have loaded.
 * @param etcdCa hashes of the trusted CAs, the signing CA first
 */
export function pendingMembers(etcdCa: readonly string[], servers: readonly ListedServer[]): readonly string[] {
  const uses = ({ memberCAs }: ListedServer): boolean =>
    memberCAs !== undefined &&
    memberCAs.signing === etcdCa[0] &&
    memberCAs.trusted.length === etcdCa.length &&
    etcdCa.every((each) => memberCAs.trusted.includes(each));
  return servers.filter((server) => !uses(server)).map(({ name }) => name);
}

/** Returns why the CA of the members cannot be rotated now, as a sentence for the administrator; undefined if every member and its server run. */
export function memberObstacle(members: readonly StorageMember[], servers: readonly ListedServer[]): string | undefined {
  for (const { name, id, role, alarms } of members) {
    const title = name === '' ? id : name;
    const server = servers.find((each) => each.name === name);
    const remedy = `start its server, or remove it with \`oarlock server remove ${title}\``;
    if (role === 'Unknown') return `the etcd member of ${title} does not respond: ${remedy}`;
    if (role === 'Learner') return `the etcd member of ${title} is still joining: wait until it votes`;
    if (alarms.includes('CORRUPT')) return `the etcd member of ${title} has the alarm CORRUPT: \`oarlock server list\` shows the alarms`;
    if (server?.ready !== true) return `the server ${title} does not run, and its etcd member would not receive the CA: ${remedy}`;
    if (server.memberCAs === undefined)
      return `the server ${title} runs a version of Oarlock that cannot rotate the CA of its etcd member: upgrade it`;
  }
  return undefined;
}

export interface MemberAuthorityFollowerOptions {
  readonly members: StorageMembers;
  /** Called when the member of this server uses other CAs. */
  readonly applied: (memberCAs: MemberCAs) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Makes the member of this server use the CAs in the key files of the server, after each change of them, until it does. */
export class MemberAuthorityFollower {
  readonly #options: MemberAuthorityFollowerOptions;
  readonly #stop = new AbortController();
  #isPending = false;
  #running: Promise<void> | undefined;

  constructor(options: MemberAuthorityFollowerOptions) {
    this.#options = options;
  }

  /** Call this when the key files may have changed. */
  update(): void {
    this.#isPending = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort(new Error('the server is stopping'));
    await this.#running;
  }

  async #run(): Promise<void> {
    const { members, applied, clock, log } = this.#options;
    const { signal } = this.#stop;
    const backoff = new Backoff({ firstMs: 500, longestMs: 10_000, jitter: 0.2, random: Math.random });
    while (this.#isPending && !signal.aborted) {
      this.#isPending = false;
      try {
        await members.useAuthorities(signal);
        await applied(await memberCAsOf(members));
      } catch (error) {
        if (signal.aborted) return;
        this.#isPending = true;
        log.warn({ error: errorText(error) }, 'the etcd member does not use the CAs of the cluster yet');
        await clock.sleep(backoff.next(), signal).catch(() => undefined); // aborted: the loop ends
      }
    }
  }
}
