import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { RegistryAuth } from '@oarlock/spi/runtime';
import type { Reference } from '../reference.ts';
import { credentialsOf, dockerCredentials, hostOfServer, type Credentials } from '../registry/credentials.ts';
import { loadHosts } from '../registry/host-config.ts';
import type { HttpClient } from '../registry/http-client.ts';
import { RegistryClient } from '../registry/registry-client.ts';

export interface RegistryOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly http: HttpClient;
  readonly hostsDirectory: string | undefined;
  readonly dockerConfig: string | undefined;
  readonly helperPath: string;
}

/** Returns a client for the repository of a reference, with the credentials of the request, or else those of docker's config.json. @throws OciError */
export async function openRegistry(
  { clock, log, random, http: client, hostsDirectory, dockerConfig: file, helperPath }: RegistryOptions,
  {
    reference,
    credentials,
    signal,
  }: { readonly reference: Reference; readonly credentials: RegistryAuth | undefined; readonly signal: AbortSignal },
): Promise<RegistryClient> {
  const { host } = reference;
  const hosts = await loadHosts(hostsDirectory, host);
  const fromConfig = credentials || file === undefined ? undefined : await dockerCredentials(host, { file, helperPath }, signal);
  const credentialsFor = (server: string) =>
    credentials ? credentialsForHost(credentials, server) : server === host ? fromConfig : undefined;
  return new RegistryClient({ client, clock, log, random, reference, hosts, credentialsFor });
}

/** Returns the credentials of a request for a host: those of another server are not used. */
function credentialsForHost(auth: RegistryAuth, host: string): Credentials | undefined {
  const server = auth.serverAddress ?? '';
  return server === '' || hostOfServer(server) === hostOfServer(host) ? credentialsOf(auth) : undefined;
}
