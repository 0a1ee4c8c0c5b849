import { isObject } from '@oarlock/api/json/json';
import type { Secret } from '@oarlock/api/types/core-v1';
import type { RegistryAuth } from '@oarlock/spi/runtime';
import {
  lookupCredentials,
  patternOfServer,
  type CredentialSource,
  type KeyringEntry,
  type TrackedAuth,
} from './keyring/docker-keyring.ts';

interface Entry {
  readonly username?: unknown;
  readonly password?: unknown;
  readonly auth?: unknown;
  readonly identitytoken?: unknown;
  readonly registrytoken?: unknown;
}

const maxSize = 1024 * 1024;
const textOr = (value: unknown): string | undefined => (typeof value === 'string' && value !== '' ? value : undefined);

/** Parses a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. @throws Error if the Secret's content is malformed */
function credentialsOf(secret: Secret): readonly KeyringEntry[] {
  const json = secret.data?.['.dockerconfigjson'];
  const legacy = secret.data?.['.dockercfg'];
  const encoded = json ?? legacy;
  if (encoded === undefined || encoded.length > maxSize) return [];
  const parsed = jsonOf(Buffer.from(encoded, 'base64').toString('utf8'), secret);
  const entries = json === undefined ? parsed : (parsed['auths'] ?? {});
  const source = sourceOf(secret);
  return Object.entries(entries).flatMap(([server, entry]: [string, Entry | null]) =>
    entry === null ? [] : [{ pattern: patternOfServer(server), auth: authOf(entry), source }],
  );
}

const sourceOf = ({ metadata: { uid = '', namespace = '', name = '' } = {} }: Secret): CredentialSource => ({
  kind: 'Secret',
  uid,
  namespace,
  name,
});

function jsonOf(text: string, { metadata }: Secret): Readonly<Record<string, Readonly<Record<string, Entry>>>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined; // the parser's message quotes the text, and readers of the pod's events may not read the Secret
  }
  if (!isObject(value)) throw new Error(`the pull secret ${metadata?.namespace}/${metadata?.name} contains no JSON object`);
  return value as never;
}

function authOf(entry: Entry): RegistryAuth {
  const [username, password] = pairOf(entry);
  const identityToken = textOr(entry.identitytoken);
  const registryToken = textOr(entry.registrytoken);
  return {
    ...(username !== undefined && { username }),
    ...(password !== undefined && { password }),
    ...(identityToken !== undefined && { identityToken }),
    ...(registryToken !== undefined && { registryToken }),
  };
}

function pairOf(entry: Entry): readonly [string | undefined, string | undefined] {
  const auth = textOr(entry.auth);
  if (auth === undefined) return [textOr(entry.username), textOr(entry.password)];
  const decoded = Buffer.from(auth, 'base64').toString('utf8');
  const at = decoded.indexOf(':');
  return at < 0 ? [decoded, undefined] : [decoded.slice(0, at), decoded.slice(at + 1)];
}

/** Returns the credentials of imagePullSecrets to try for a repository, most specific first. @throws Error if a Secret's content is malformed */
export const credentialsFor = (repository: string, secrets: readonly Secret[]): readonly TrackedAuth[] =>
  lookupCredentials(repository, secrets.flatMap(credentialsOf));
