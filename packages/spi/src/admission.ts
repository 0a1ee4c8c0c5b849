import type { KubeObject } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import type { Status } from '@oarlock/api/status';
import { slot } from '@oarlock/kernel/slot';
import type { Cause } from '@oarlock/kernel/tracing';
import type { Identity } from './authn.ts';

export type Operation = 'CREATE' | 'UPDATE' | 'DELETE' | 'CONNECT';

/** One request on its way to storage. Objects are frozen: a mutating plugin returns a changed copy. */
export interface AdmissionRequest {
  readonly operation: Operation;
  readonly resource: Resource;
  /** '' when none. */
  readonly subresource: string;
  /** '' for cluster-scoped resources. */
  readonly namespace: string;
  /** '' when the server is to make one from `generateName`. */
  readonly name: string;
  /** Absent on DELETE and where CONNECT has no options. */
  readonly object: KubeObject | undefined;
  /** On UPDATE and DELETE. */
  readonly old: KubeObject | undefined;
  readonly options: Readonly<Record<string, unknown>>;
  readonly identity: Identity;
  readonly dryRun: boolean;
  /** Adds a `Warning` header to the response. */
  warn(message: string): void;
  /** Adds an annotation to the request's audit event; with `Request`, only where that shows what was sent, too. */
  annotate(key: string, value: string, level?: 'Request'): void;
  /** The span of the request: what the plugin asks of others is caused by it. The same object for all that one request asks of plugins. */
  readonly cause?: Cause;
  /** The other versions of what the request is about; undefined where there is but the one. */
  versions?(): Versions | undefined;
  /** While the request is mutated; absent where a plugin is asked alone. */
  readonly round?: MutationRound;
}

/** The same objects under other names: for rules that are for all versions of a resource, whichever they name (`matchPolicy: Equivalent`). */
export interface Versions {
  /** All that are served, the request's own among them. */
  readonly resources: readonly Resource[];
  /**
   * The object as the version of `to` has it. What is of another kind than these resources, as a Scale is, stays what it is.
   * @throws StatusError InternalError where a conversion webhook fails
   */
  convert(object: KubeObject, to: Resource): KubeObject | Promise<KubeObject>;
}

/**
 * Mutating plugins are asked once more, all of them, when one that changes objects by rules from outside says so (KEP-2008, the
 * reinvocation of webhooks). There is no third time.
 */
export interface MutationRound {
  /** It is the second time. */
  readonly again: boolean;
  /** Asks for a second time: those before this plugin have not seen the object as it is now. */
  reinvoke(): void;
  /** What a plugin wants to know in the second round. Its key is its own. */
  readonly memory: Map<object, unknown>;
}

/** A refusal is an answer, not an exception. `reason` is the HTTP meaning; Kubernetes answers `Forbidden` unless told otherwise. */
export type Verdict =
  | { readonly allowed: true }
  | {
      readonly allowed: false;
      readonly message: string;
      readonly reason?: 'Forbidden' | 'Invalid' | 'Conflict' | 'TooManyRequests' | 'BadRequest' | 'NotFound';
      readonly field?: string;
      /** The answer word for word, where rules from outside say what it is. */
      readonly status?: Status;
    };
export const allow: Verdict = { allowed: true };
export const deny = (
  message: string,
  more: {
    readonly reason?: 'Forbidden' | 'Invalid' | 'Conflict' | 'TooManyRequests' | 'BadRequest' | 'NotFound';
    readonly field?: string;
    readonly status?: Status;
  } = {},
): Verdict => ({ allowed: false, message, ...more });

export interface AdmissionRule {
  /** `pods`, `deployments.apps`, `pods/binding`, or `*`. */
  readonly resources: readonly string[];
  readonly operations: readonly (Operation | '*')[];
}

/** Whether a plugin's rules reach a request: as the server works it out, once for each kind of request. */
export function reaches(
  rules: readonly AdmissionRule[],
  { operation, resource, subresource }: Pick<AdmissionRequest, 'operation' | 'resource' | 'subresource'>,
): boolean {
  const what = subresource === '' ? groupResource(resource) : `${groupResource(resource)}/${subresource}`;
  return rules.some(
    ({ resources, operations }) =>
      (operations.includes('*') || operations.includes(operation)) && (resources.includes('*') || resources.includes(what)),
  );
}

export interface AdmissionPlugin {
  /** Which requests reach this plugin. Static, so that the server skips it without a call. */
  readonly matches: readonly AdmissionRule[];
  /** It has nothing to say about such requests at the moment, for plugins whose rules come and go. Cheap: called for each request. */
  idle?(operation: Operation, resource: Resource, subresource: string): boolean;
  /** Returns the object to go on with: the same one if nothing changes. All `mutate` of the chain run before any `validate`. */
  mutate?(request: AdmissionRequest): KubeObject | Verdict | Promise<KubeObject | Verdict>;
  validate?(request: AdmissionRequest): Verdict | Promise<Verdict>;
}

export const isVerdict = (value: KubeObject | Verdict): value is Verdict => 'allowed' in value && typeof value.allowed === 'boolean';

export const Admission = slot.chain<AdmissionPlugin>('admission/v1');
