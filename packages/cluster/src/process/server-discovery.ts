import { endpointSlices } from '@oarlock/api/resources';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { serverUrl, type ServerList } from '@oarlock/client/http/server-list';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import type { Logger } from '@oarlock/primitives/logger';
import type { Informers } from '@oarlock/spi/client';
import { join } from 'node:path';
import { z } from 'zod';

export interface ServerDiscoveryOptions {
  readonly servers: ServerList;
  readonly informers: Informers;
  readonly dataDir: string;
  readonly log: Logger;
}

const serversFile = (dataDir: string) => join(dataDir, 'servers.json');
const fileForm = z.object({ servers: z.array(z.string()) });
const kubernetesSlice = { namespace: 'default', fieldSelector: 'metadata.name=kubernetes' };

/** Returns the API servers that an earlier process with this data directory discovered. A file that cannot be parsed is ignored: it is a cache. */
export async function readDiscoveredServers(dataDir: string): Promise<readonly string[]> {
  const text = await readIfExists(serversFile(dataDir));
  if (text === undefined) return [];
  try {
    return fileForm.parse(JSON.parse(text)).servers;
  } catch {
    return [];
  }
}

/** Returns the URLs of the ready endpoints of an EndpointSlice of the Service `kubernetes`. */
export function serversOf({ endpoints, ports }: EndpointSlice): readonly string[] {
  const port = (ports ?? []).find(({ name }) => name === 'https')?.port;
  if (port === undefined) return [];
  return (endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false)
    .flatMap(({ addresses }) => addresses.map((address) => serverUrl(address, port)));
}

/**
 * Keeps a list of servers up to date with the EndpointSlice of the Service `kubernetes`, and the data directory with the list, so that the next start
 * does not depend on the servers of the command line. Call this before the informers start. The returned function stops the updates and resolves when
 * the file is written.
 */
export function discoverServers({ servers, informers, dataDir, log }: ServerDiscoveryOptions): () => Promise<void> {
  let writing = Promise.resolve();
  const update = (slice: EndpointSlice) => {
    const found = serversOf(slice);
    if (!servers.setDiscovered(found)) return;
    log.info({ servers: found }, 'the API servers of the cluster have changed');
    writing = writing.then(async () => {
      try {
        await writeAtomic(serversFile(dataDir), JSON.stringify({ servers: found }));
      } catch (error) {
        log.warn({ err: error }, 'the list of API servers could not be written');
      }
    });
  };
  const informer = informers.forResource<EndpointSlice>(endpointSlices, kubernetesSlice);
  const unsubscribe = informer.addEventHandler({ onAdd: update, onUpdate: update });
  return async () => {
    unsubscribe();
    await writing;
  };
}
