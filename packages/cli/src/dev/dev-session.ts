import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Client } from '@oarlock/spi/client';
import { configurationName, removeWebhooks } from './webhook-registration.ts';

interface Session {
  readonly id: string;
  readonly server: string;
}

/** The cluster in which a run has webhooks. */
export interface SessionCluster {
  readonly client: Client;
  readonly server: string;
  readonly signal: AbortSignal;
}

const sessionFile = (dataDir: string) => join(dataDir, 'dev-session.json');

function parseSession(text: string): Session | undefined {
  try {
    const { id, server } = JSON.parse(text) as Partial<Session>;
    return typeof id === 'string' && /^[0-9a-f]{10}$/.test(id) && typeof server === 'string' ? { id, server } : undefined;
  } catch {
    return undefined; // the file is not a session
  }
}

/** Returns the command that removes the webhooks of a run by hand. */
export const removalCommand = (id: string): string =>
  `kubectl delete --ignore-not-found mutatingwebhookconfiguration,validatingwebhookconfiguration ${configurationName(id)}`;

/** Records in the data directory that webhooks will exist, and returns the id of the run. */
export async function openSession(dataDir: string, server: string): Promise<string> {
  const id = randomBytes(5).toString('hex');
  await writeAtomic(sessionFile(dataDir), JSON.stringify({ id, server } satisfies Session));
  return id;
}

/** Removes the webhooks of a run, and then their record. */
export async function closeSession(dataDir: string, id: string, { client, signal }: Omit<SessionCluster, 'server'>): Promise<void> {
  await removeWebhooks(client, id, signal);
  await rm(sessionFile(dataDir), { force: true });
}

/**
 * Removes the webhooks that a killed run left in the cluster. Returns a notice for the user: that they were removed, or that they are in another
 * cluster; undefined if there are none.
 */
export async function removeLeftBehind(dataDir: string, { client, server, signal }: SessionCluster): Promise<string | undefined> {
  const session = parseSession((await readIfExists(sessionFile(dataDir))) ?? '');
  if (session === undefined) return undefined;
  if (session.server !== server)
    return `an earlier run did not remove its webhooks from ${session.server}; remove them there: ${removalCommand(session.id)}`;
  await closeSession(dataDir, session.id, { client, signal });
  return 'removed the webhooks of an earlier run that was killed';
}
