import { configMaps, services } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { ConfigMap } from '@oarlock/api/types/core-v1';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';
import { clusterDnsService } from '@oarlock/spi/dns';
import {
  configurationChanges,
  configurationMap,
  formatConfiguration,
  parseConfiguration,
  type ClusterConfiguration,
} from './cluster-configuration.ts';

export interface PublisherOptions {
  readonly client: Client;
  readonly configuration: ClusterConfiguration;
  readonly clock: Clock;
  readonly log: Logger;
}

const { key, ...location } = configurationMap;

/**
 * Writes the cluster's configuration to its ConfigMap and creates the objects that follow from the configuration, whatever roles the process runs:
 * the Service of the cluster DNS. Retries in the background. Returns a function that stops the retries.
 */
export function publishClusterConfiguration(options: PublisherOptions): () => Promise<void> {
  const stop = new AbortController();
  const running = retryUntilDone(options, stop.signal);
  return async () => {
    stop.abort();
    await running;
  };
}

async function retryUntilDone(options: PublisherOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, configuration } = options;
  const backoff = new Backoff({ firstMs: 200, longestMs: 30_000, jitter: 0.5, random: Math.random });
  while (!signal.aborted) {
    try {
      await writeConfiguration(options, signal);
      if (configuration.components.dns !== undefined) await ensureDnsService(options, signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      const delayMs = backoff.next();
      log.warn({ err: error, delayMs }, 'the configuration of the cluster could not be published; retrying');
      await clock.sleep(delayMs, signal).catch(() => undefined);
    }
  }
}

async function ensureDnsService({ client, configuration }: PublisherOptions, signal: AbortSignal): Promise<void> {
  try {
    await client.create(services, clusterDnsService(configuration.dnsServiceIP), { signal });
  } catch (error) {
    if (!isStatus(error, 'AlreadyExists')) throw error;
  }
}

/** Creates or updates the ConfigMap. A change is logged field by field: another server may have another file. */
async function writeConfiguration({ client, configuration, log }: PublisherOptions, signal: AbortSignal): Promise<void> {
  const data = { [key]: formatConfiguration(configuration) };
  let stored: ConfigMap;
  try {
    stored = await client.get(configMaps, location, { signal });
  } catch (error) {
    if (!isStatus(error, 'NotFound')) throw error;
    await client.create(configMaps, { metadata: location, data }, { signal });
    return;
  }
  const previous = parseConfiguration(stored.data?.[key]);
  const changes = previous === undefined ? ['the stored form'] : configurationChanges(previous, configuration);
  if (changes.length === 0) return;
  log.warn({ changes }, 'the cluster file of this server changes the configuration of the cluster; all servers need the same file');
  await client.update(configMaps, { ...stored, data: { ...stored.data, ...data } }, { signal });
}
