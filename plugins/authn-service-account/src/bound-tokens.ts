import type { KeyObject } from 'node:crypto';
import { nodes, pods, secrets, serviceAccounts } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import { rejected, type AuthnResult, type Identity } from '@oarlock/spi/authn';
import type { Client } from '@oarlock/spi/client';
import type { JWTPayload } from 'jose';
import { isDeleted } from './deletion.ts';
import { verifyWithKeys } from './token-verifier.ts';

export interface BoundTokensOptions {
  readonly issuer: string;
  readonly client: Client;
  readonly clock: Clock;
  /** Returns the current public keys that verify tokens. */
  keys(): readonly KeyObject[];
}

interface ObjectReference {
  readonly name: string;
  readonly uid: string;
}
/** The private claim `kubernetes.io` (KEP-1205). */
interface PrivateClaims {
  readonly namespace: string;
  readonly serviceaccount: ObjectReference;
  readonly pod?: ObjectReference;
  readonly secret?: ObjectReference;
  readonly node?: ObjectReference;
  /** The time after which the client should have replaced the token, in seconds since the epoch. */
  readonly warnafter?: number;
}

const resources = { serviceaccount: serviceAccounts, pod: pods, secret: secrets, node: nodes } as const satisfies Record<string, Resource>;
const invalidToken = rejected('the service account token is not valid');

/**
 * Verifies tokens of the TokenRequest API (KEP-1205). A token is valid for its audience until it expires or an object that it is bound to is
 * deleted.
 */
export class BoundTokens {
  readonly #options: BoundTokensOptions;

  constructor(options: BoundTokensOptions) {
    this.#options = options;
  }

  async verify(token: string, audiences: readonly string[]): Promise<AuthnResult> {
    const { issuer, clock, keys } = this.#options;
    const payload = await verifyWithKeys(token, keys(), {
      issuer,
      audience: [...audiences],
      requiredClaims: ['exp'],
      currentDate: new Date(clock.now()),
    });
    const claims = privateClaims(payload);
    if (payload === undefined || claims === undefined) return invalidToken;
    const missing = await this.#missingObject(claims);
    if (missing !== undefined) return rejected(`the ${missing} of the token does not exist`);
    const tokenAudiences = Array.isArray(payload.aud) ? payload.aud : [payload.aud ?? ''];
    const annotations = this.#staleAnnotation(payload, claims);
    return {
      outcome: 'authenticated',
      identity: identityOf(payload, claims),
      audiences: audiences.filter((audience) => tokenAudiences.includes(audience)),
      ...(annotations && { annotations }),
    };
  }

  /** Returns the kind of the first bound object that does not exist, as messages name it; undefined if all exist. */
  async #missingObject({ namespace, serviceaccount, pod, secret, node }: PrivateClaims): Promise<string | undefined> {
    if (!(await this.#exists('serviceaccount', namespace, serviceaccount))) return 'service account';
    if (pod && !(await this.#exists('pod', namespace, pod))) return 'pod';
    if (secret && !(await this.#exists('secret', namespace, secret))) return 'secret';
    // with a pod, the node claim only records where the pod ran
    if (node && !pod && !(await this.#exists('node', '', node))) return 'node';
    return undefined;
  }

  async #exists(kind: keyof typeof resources, namespace: string, { name, uid }: ObjectReference): Promise<boolean> {
    const { client, clock } = this.#options;
    try {
      const resource: Resource = resources[kind];
      const object = await client.get(resource, { ...(kind !== 'node' && { namespace }), name });
      return object.metadata?.uid === uid && !isDeleted(object, clock);
    } catch (error) {
      if (isStatus(error, 'NotFound')) return false;
      throw error;
    }
  }

  #staleAnnotation({ sub }: JWTPayload, { warnafter = Infinity }: PrivateClaims): Readonly<Record<string, string>> | undefined {
    const seconds = Math.floor(this.#options.clock.now() / 1000 - warnafter);
    if (seconds <= 0) return undefined;
    return { 'authentication.k8s.io/stale-token': `subject: ${sub}, seconds after warning threshold: ${seconds}` };
  }
}

const isReference = (value: unknown): value is ObjectReference =>
  typeof (value as ObjectReference | undefined)?.name === 'string' && typeof (value as ObjectReference).uid === 'string';

/** Returns the private claims of a token; undefined if the claims are malformed or do not match the token's subject. */
function privateClaims(payload: JWTPayload | undefined): PrivateClaims | undefined {
  const claims = payload?.['kubernetes.io'] as Partial<PrivateClaims> | undefined;
  if (typeof claims?.namespace !== 'string' || !isReference(claims.serviceaccount)) return undefined;
  for (const each of [claims.pod, claims.secret, claims.node]) if (each !== undefined && !isReference(each)) return undefined;
  if (claims.warnafter !== undefined && typeof claims.warnafter !== 'number') return undefined;
  if (payload?.jti !== undefined && typeof payload.jti !== 'string') return undefined;
  return payload?.sub === `system:serviceaccount:${claims.namespace}:${claims.serviceaccount.name}` ? (claims as PrivateClaims) : undefined;
}

function identityOf({ jti }: JWTPayload, { namespace, serviceaccount, pod, node }: PrivateClaims): Identity {
  return {
    name: `system:serviceaccount:${namespace}:${serviceaccount.name}`,
    uid: serviceaccount.uid,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
    extra: {
      ...(jti !== undefined && { 'authentication.kubernetes.io/credential-id': [`JTI=${jti}`] }),
      ...(pod && { 'authentication.kubernetes.io/pod-name': [pod.name], 'authentication.kubernetes.io/pod-uid': [pod.uid] }),
      ...(node && { 'authentication.kubernetes.io/node-name': [node.name], 'authentication.kubernetes.io/node-uid': [node.uid] }),
    },
  };
}
