import { repositoryOf } from '@oarlock/api/component-helpers/image-reference';
import type { RegistryAuth } from '@oarlock/spi/runtime';
import { matchesImage } from './image-match.ts';

/** The object that credentials belong to: only pods that refer to it may use what was pulled with them. */
export interface CredentialSource {
  readonly kind: 'Secret' | 'ServiceAccount';
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

/** The credentials for the images that a pattern matches. Without a source, they are those of the node. */
export interface KeyringEntry {
  readonly pattern: string;
  readonly auth: RegistryAuth;
  readonly source?: CredentialSource | undefined;
}

/** Credentials for a repository, and the object that they belong to (TrackedAuthConfig upstream). */
export type TrackedAuth = Omit<KeyringEntry, 'pattern'>;

const hub = 'docker.io';
/** The host names of Docker Hub, which share credentials. */
const hubNames = new Set([hub, 'index.docker.io', 'registry-1.docker.io']);

function withHubName(address: string): string {
  const [host = ''] = address.split('/');
  return hubNames.has(host) ? `${hub}${address.slice(host.length)}` : address;
}

/** Returns the pattern of a key of a docker config: without scheme and API version, which docker allows there. */
export function patternOfServer(server: string): string {
  const address = server.replace(/^https?:\/\//, '').replace(/^([^/]*)\/v[12](?=\/|$)/, '$1');
  return withHubName(address.replace(/^([^/]*)\/$/, '$1'));
}

/** Returns the repository of an image without tag and digest, with its registry, as credential providers receive it. */
export const repositoryWithRegistry = (image: string): string => withHubName(repositoryOf(image));

/**
 * Returns the credentials to try for a repository: in reverse order of the patterns, so that the more specific ones are first, and in the order of
 * the entries for equal patterns (BasicDockerKeyring upstream). They are for the registry of the repository alone.
 */
export function lookupCredentials(repository: string, entries: readonly KeyringEntry[]): readonly TrackedAuth[] {
  const [serverAddress = ''] = repository.split('/');
  return entries
    .filter(({ pattern }) => matchesImage(pattern, repository))
    .sort((a, b) => (a.pattern < b.pattern ? 1 : a.pattern > b.pattern ? -1 : 0))
    .map(({ auth, source }) => ({ auth: { ...auth, serverAddress }, source }));
}
