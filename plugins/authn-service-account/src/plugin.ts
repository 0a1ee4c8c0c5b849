import { createPublicKey, hash, type KeyObject } from 'node:crypto';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import { nodes, pods, secrets, serviceAccounts } from '@oarlock/api/resources';
import { abstained, Authn, rejected, type AuthnResult, type Identity } from '@oarlock/spi/authn';
import { Client } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import type { JWTPayload } from 'jose';
import { z } from 'zod';
import { legacyIssuer, LegacyTokens } from './legacy-tokens.ts';
import { algorithmOf, isOfAnotherKey } from './signatures.ts';

interface ObjectReference {
  readonly name: string;
  readonly uid: string;
}
interface Private {
  readonly namespace: string;
  readonly serviceaccount: ObjectReference;
  readonly pod?: ObjectReference;
  readonly secret?: ObjectReference;
  readonly node?: ObjectReference;
  /** Seconds since the epoch: from then on the token should have been replaced. */
  readonly warnafter?: number;
}
interface Verified {
  readonly result: AuthnResult;
  readonly until: number;
}

const maxCached = 10_000;
const form = /^[\w-]+\.[\w-]+\.[\w-]+$/; // JWS compact serialization (RFC 7515)
const isBound = (value: unknown): value is ObjectReference =>
  typeof (value as ObjectReference | undefined)?.name === 'string' && typeof (value as ObjectReference).uid === 'string';

/** The claims of KEP-1205, when they are what they should be. */
function privateClaims(payload: JWTPayload | undefined): Private | undefined {
  const claims = payload?.['kubernetes.io'] as Partial<Private> | undefined;
  if (typeof claims?.namespace !== 'string' || !isBound(claims.serviceaccount)) return undefined;
  for (const each of [claims.pod, claims.secret, claims.node]) if (each !== undefined && !isBound(each)) return undefined;
  return payload?.sub === `system:serviceaccount:${claims.namespace}:${claims.serviceaccount.name}` ? (claims as Private) : undefined;
}

/** For so long what is being deleted may still use its token. */
const graceMs = 60_000;
/** Tokens of service accounts (KEP-1205): signed by the cluster's keys, alive as long as what they are bound to. */
export default Authn.plugin({
  id: 'authn-service-account',
  config: z.strictObject({
    /** Tokens for these audiences are accepted; default: the issuer. */
    audiences: z.array(z.string()).min(1).optional(),
    /** How long a verified token is taken without another look, in milliseconds. Bounds how late a revocation is seen. */
    cacheMs: z.number().int().min(0).max(10_000).default(9_000),
  }),
  needs: { keys: Keys, client: Client },
  create({ config, keys, client }, { clock, log }) {
    const { issuer } = keys.serviceAccount;
    const audiences = config.audiences ?? [issuer];
    const cache = new Map<string, Verified>();
    let read: { readonly from: readonly string[]; readonly keys: readonly KeyObject[] } | undefined;
    /** After a rotation they are others, and what the former ones have verified is looked at again. */
    const publicKeys = (): readonly KeyObject[] => {
      const { verifyingKeys } = keys.serviceAccount;
      if (read?.from !== verifyingKeys) {
        cache.clear();
        read = { from: verifyingKeys, keys: verifyingKeys.map((pem) => createPublicKey(pem)) };
      }
      return read.keys;
    };

    const claimsOf = (token: string): JWTPayload | undefined => {
      try {
        return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8')) as JWTPayload;
      } catch {
        return undefined; // not a JWT: not our kind of token
      }
    };
    const exists = async (
      kind: 'pod' | 'secret' | 'serviceaccount' | 'node',
      namespace: string,
      { name, uid }: ObjectReference,
    ): Promise<boolean> => {
      const resource: Resource = { pod: pods, secret: secrets, serviceaccount: serviceAccounts, node: nodes }[kind];
      try {
        const found = await client.get(resource, { ...(kind !== 'node' && { namespace }), name });
        const { uid: own, deletionTimestamp } = found.metadata ?? {};
        const late = deletionTimestamp !== undefined && Date.parse(deletionTimestamp) < clock.now() - graceMs;
        return own === uid && !late;
      } catch (error) {
        if (isStatus(error, 'NotFound')) return false;
        throw error;
      }
    };
    const verify = async (token: string, audiences: readonly string[]): Promise<AuthnResult> => {
      const { jwtVerify } = await import('jose');
      let payload: JWTPayload | undefined;
      for (const key of publicKeys()) {
        try {
          ({ payload } = await jwtVerify(token, key, {
            issuer,
            audience: [...audiences],
            algorithms: [algorithmOf(key)],
            requiredClaims: ['exp'],
            currentDate: new Date(clock.now()),
          }));
          break;
        } catch (error) {
          if (!isOfAnotherKey(error)) return rejected('the service account token is not valid');
        }
      }
      const bound = privateClaims(payload);
      if (payload === undefined || bound === undefined) return rejected('the service account token is not valid');
      const { namespace, serviceaccount: account, pod, secret, node } = bound;
      if (!(await exists('serviceaccount', namespace, account))) return rejected('the service account of the token does not exist');
      if (pod && !(await exists('pod', namespace, pod))) return rejected('the pod of the token does not exist');
      if (secret && !(await exists('secret', namespace, secret))) return rejected('the secret of the token does not exist');
      // with a pod, the node is only where that ran
      if (node && !pod && !(await exists('node', '', node))) return rejected('the node of the token does not exist');
      const meant = Array.isArray(payload.aud) ? payload.aud : [payload.aud ?? ''];
      const identity: Identity = {
        name: `system:serviceaccount:${namespace}:${account.name}`,
        uid: account.uid,
        groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
        extra: {
          ...(payload.jti !== undefined && { 'authentication.kubernetes.io/credential-id': [`JTI=${payload.jti}`] }),
          ...(pod && { 'authentication.kubernetes.io/pod-name': [pod.name], 'authentication.kubernetes.io/pod-uid': [pod.uid] }),
          ...(node && { 'authentication.kubernetes.io/node-name': [node.name], 'authentication.kubernetes.io/node-uid': [node.uid] }),
        },
      };
      const late = Math.floor(clock.now() / 1000 - (bound.warnafter ?? Infinity));
      const stale = { 'authentication.k8s.io/stale-token': `subject: ${payload.sub}, seconds after warning threshold: ${late}` };
      return {
        outcome: 'authenticated',
        identity,
        audiences: audiences.filter((audience) => meant.includes(audience)),
        ...(late > 0 && { annotations: stale }),
      };
    };

    const legacy = new LegacyTokens({ client, clock, log, keys: publicKeys });

    return {
      async authenticate({ bearerToken, audiences: asked }) {
        if (bearerToken === undefined || bearerToken.length > 16_384 || !form.test(bearerToken)) return abstained;
        const wanted = asked !== undefined && asked.length > 0 ? asked : audiences;
        const digest = hash('sha256', wanted === audiences ? bearerToken : bearerToken + JSON.stringify(wanted), 'base64');
        publicKeys();
        const known = cache.get(digest);
        if (known !== undefined && known.until > clock.now()) return known.result;
        const { iss } = claimsOf(bearerToken) ?? {};
        if (iss !== issuer && iss !== legacyIssuer) return abstained;
        const result = iss === legacyIssuer ? await legacy.verify(bearerToken) : await verify(bearerToken, wanted);
        cache.delete(digest);
        if (cache.size >= maxCached)
          for (const oldest of cache.keys()) {
            cache.delete(oldest);
            break;
          }
        if (result.outcome === 'authenticated') {
          const expires = (claimsOf(bearerToken)?.exp ?? (iss === legacyIssuer ? Infinity : 0)) * 1000;
          cache.set(digest, { result, until: Math.min(expires, clock.now() + config.cacheMs) });
        }
        return result;
      },
    };
  },
});
