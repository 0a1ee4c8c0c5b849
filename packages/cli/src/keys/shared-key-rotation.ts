import { setTimeout as delay } from 'node:timers/promises';
import { isStatus } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';
import { keysPath, type KeysStatus, type RotationRequest } from '@oarlock/cluster/servers/server-plugins';
import { adminAccess } from '../common/admin-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';

/** Time in milliseconds to wait until all running servers use changed keys. */
const applyTimeoutMs = 60_000;
/** Interval between two reads of the state: the command has no watch of it. */
const pollIntervalMs = 200;

/** A rotation of keys that several servers share, through one of the servers. */
export class SharedKeyRotation {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  async status(): Promise<KeysStatus> {
    return (await this.#client.raw('GET', keysPath)) as KeysStatus;
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

  /** Waits until all running servers have applied the keys of the newest generation. @throws CommandError if a server does not in time */
  async whenApplied(): Promise<void> {
    const deadline = Date.now() + applyTimeoutMs;
    for (;;) {
      const { generation, servers } = await this.status();
      const pending = servers.filter(({ ready, keysGeneration }) => ready && keysGeneration < generation).map(({ name }) => name);
      if (pending.length === 0) return;
      if (Date.now() > deadline)
        throw new CommandError(
          `${pending.join(', ')} did not apply the keys within ${applyTimeoutMs / 1000} s; \`oarlock keys status\` shows the progress`,
        );
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

/** Calls `work` with the rotation of a cluster. @throws CommandError if no server of the data directory runs */
export async function withSharedKeys<T>(dataDir: string, work: (rotation: SharedKeyRotation) => Promise<T>): Promise<T> {
  const { client, close } = await adminAccess(dataDir);
  try {
    return await work(new SharedKeyRotation(client));
  } finally {
    close();
  }
}
