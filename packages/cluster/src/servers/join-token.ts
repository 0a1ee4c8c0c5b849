import { randomBytes, randomInt } from 'node:crypto';
import { seal, unseal } from './sealed-box.ts';

/** The group of bootstrap tokens that obtain the keys of a server. */
export const serversGroup = 'system:bootstrappers:oarlock:servers';
/** The key of a token's Secret that holds the sealed cluster key. */
export const sealedKeyField = 'oarlock-sealed-cluster-key';

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';
const random = (length: number) => Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');
const form = /^([a-z0-9]{6})\.([a-z0-9]{16})(?:\.([\w-]{43}))?$/;

/** A bootstrap token. `joinKey` is the part of a server's token that only its holder knows; tokens of nodes have none. */
export interface JoinToken {
  readonly id: string;
  readonly secret: string;
  /** 32 bytes. */
  readonly joinKey?: Buffer;
}

/** Returns a new random token. */
export const newJoinToken = (role: 'node' | 'server'): JoinToken => ({
  id: random(6),
  secret: random(16),
  ...(role === 'server' && { joinKey: randomBytes(32) }),
});

/** Parses `ID.SECRET` or `ID.SECRET.KEY`; returns undefined if the text has neither form. */
export function parseJoinToken(text: string): JoinToken | undefined {
  const [, id, secret, key] = form.exec(text) ?? [];
  if (id === undefined || secret === undefined) return undefined;
  return { id, secret, ...(key !== undefined && { joinKey: Buffer.from(key, 'base64url') }) };
}

/** Returns the part of a token that authenticates its holder. */
export const bearerToken = ({ id, secret }: JoinToken): string => `${id}.${secret}`;

export const formatJoinToken = (token: JoinToken): string =>
  token.joinKey === undefined ? bearerToken(token) : `${bearerToken(token)}.${token.joinKey.toString('base64url')}`;

const purposeOf = (id: string): string => `cluster key for bootstrap token ${id}`;

/** Seals the cluster key for the holder of a server's token. */
export const sealClusterKey = (id: string, joinKey: Uint8Array, clusterKey: Uint8Array): string =>
  seal(joinKey, purposeOf(id), Buffer.from(clusterKey).toString('base64'));

/** Opens the cluster key. @throws Error if it was sealed for another token */
export const unsealClusterKey = (id: string, joinKey: Uint8Array, sealed: string): Buffer =>
  Buffer.from(unseal(joinKey, purposeOf(id), sealed), 'base64');

/** Returns the id of the bootstrap token that authenticated a user; undefined for other users. */
export const tokenIdOf = (user: string): string | undefined => /^system:bootstrap:([a-z0-9]{6})$/.exec(user)?.[1];
