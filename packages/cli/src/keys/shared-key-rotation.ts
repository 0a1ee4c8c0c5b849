import { setTimeout as delay } from 'node:timers/promises';
import { isStatus } from '@oarlock/api/status';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import { keysPath, type KeysStatus, type RotationRequest } from '@oarlock/cluster/servers/server-plugins';
import { caHash, certificatesOf } from '@oarlock/cluster/pki/ca-hash';
import { withCluster } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { readNodeAuthorities, type NodeWithAuthority } from './node-authorities.ts';

/** Interval between two reads of the state: the command has no watch of it. */
const pollIntervalMs = 200;

/** A rotation of keys that several servers share, through one of the servers. */
export class SharedKeyRotation {
  readonly #client: Client;
  /** The names of the servers that the rotation waits for. */
  pending: readonly string[] = [];

  constructor(client: Client) {
    this.#client = client;
  }

  async status(): Promise<KeysStatus> {
    return (await this.#client.raw('GET', keysPath)) as KeysStatus;
  }

  /** Reads which CA signed the certificates of each node. */
  async nodes({ identity }: KeysStatus): Promise<readonly NodeWithAuthority[]> {
    const { ca } = (await this.#client.raw('GET', '/oarlock/v1/ca')) as { readonly ca: string };
    const order = identity['ca'] ?? [];
    // the record has the signing CA first also before the server is restarted; it no longer has a removed CA that the server still trusts
    const position = (pem: string) => (order.includes(caHash(pem)) ? order.indexOf(caHash(pem)) : order.length);
    return readNodeAuthorities(
      this.#client,
      [...certificatesOf(ca)].sort((a, b) => position(a) - position(b)),
    );
  }

  /** Takes a step. @throws CommandError if it is not possible now */
  async step(keys: RotationRequest['keys'], step: RotationRequest['step'], algorithm?: RotationRequest['algorithm']): Promise<KeysStatus> {
    try {
      return (await this.#client.raw('POST', keysPath, { keys, step, algorithm } satisfies RotationRequest)) as KeysStatus;
    } catch (error) {
      if (isStatus(error, 'Conflict')) throw new CommandError(error.message, exitCodes.usage, { cause: error });
      throw error;
    }
  }

  /** Waits until all running servers have applied the keys of the newest generation. */
  async whenApplied(): Promise<void> {
    for (;;) {
      const { generation, servers } = await this.status();
      this.pending = servers.filter(({ ready, keysGeneration }) => ready && keysGeneration < generation).map(({ name }) => name);
      if (this.pending.length === 0) return;
      await delay(pollIntervalMs);
    }
  }

  /** Waits until the members of the storage use the CAs of the newest generation. */
  async whenMembersApplied(): Promise<void> {
    for (;;) {
      const { pending } = await this.status();
      this.pending = pending['etcd-ca'].end;
      if (this.pending.length === 0) return;
      await delay(pollIntervalMs);
    }
  }

  /** Distributes a next key to all servers, and then makes them use it. Continues a rotation that was interrupted between the two steps. */
  async addAndUse(keys: 'service-account' | 'encryption', algorithm?: RotationRequest['algorithm']): Promise<void> {
    try {
      await this.step(keys, 'add', algorithm);
    } catch (error) {
      if (!(error instanceof CommandError) || !error.message.includes('there is a next')) throw error;
    }
    await this.whenApplied();
    await this.step(keys, 'use');
    await this.whenApplied();
  }
}

export interface SharedKeysOptions {
  readonly dataDir: string;
  /** Time in seconds for the whole rotation. */
  readonly timeout: number;
}

/**
 * Calls `work` with the rotation of a cluster. @throws CommandError if no server of the data directory runs, or if the servers have not applied the keys in
 * time
 */
export async function withSharedKeys<T>(
  options: SharedKeysOptions,
  work: (rotation: SharedKeyRotation) => Promise<T>,
  clock: Pick<Clock, 'after'> = systemClock,
): Promise<T> {
  let rotation: SharedKeyRotation | undefined;
  const describeWait = () => {
    const pending = rotation?.pending ?? [];
    return pending.length === 0 ? undefined : `${pending.join(', ')} did not apply the keys (\`oarlock keys status\`)`;
  };
  return withCluster(
    options,
    ({ client }) => {
      rotation = new SharedKeyRotation(client);
      return work(rotation);
    },
    { clock, describeWait },
  );
}
