import { jsonEqual, isObject } from '@oarlock/api/json';
import { deepFreeze, type KubeObject } from '@oarlock/api/object';
import { groupResource, type Resource } from '@oarlock/api/resource';
import { badRequest, conflict, failure, forbidden, StatusError } from '@oarlock/api/status';
import {
  isVerdict,
  type AdmissionPlugin,
  type AdmissionRequest,
  type MutationRound,
  type Operation,
  type Verdict,
  type Versions,
} from '@oarlock/spi/admission';
import type { Names } from './authorization.ts';
import type { Call } from './call.ts';

/** What a request asks to be admitted: the parts of `AdmissionRequest` that the call itself does not say. */
export interface Admitted {
  readonly operation: Operation;
  readonly resource: Resource;
  readonly object: KubeObject | undefined;
  readonly old: KubeObject | undefined;
  readonly options: Readonly<Record<string, unknown>>;
  /** Where the name is not that of the request. */
  readonly name?: string;
}

type VersionsOf = (resource: Resource) => Versions | undefined;

interface Place {
  readonly plugin: AdmissionPlugin;
  /** Of its spans. */
  readonly step: string;
}
interface Stages {
  readonly mutate: readonly Place[];
  readonly validate: readonly Place[];
}

const maxChanged = 32;
const mutating = Object.freeze({ 'oarlock.phase': 'mutate' });
const validating = Object.freeze({ 'oarlock.phase': 'validate' });
const busy =
  (operation: Operation, resource: Resource, subresource: string) =>
  ({ plugin }: Place): boolean =>
    plugin.idle?.(operation, resource, subresource) !== true;

/** The admission plugins, in order; which of them a request reaches is looked up, not asked. */
export class AdmissionChain {
  readonly #places: readonly Place[];
  readonly #stages = new Map<string, Stages>();
  readonly #versions: VersionsOf;

  constructor(plugins: readonly AdmissionPlugin[], names: Names = [], versions: VersionsOf = () => undefined) {
    this.#versions = versions;
    this.#places = plugins.map((plugin, i) => ({ plugin, step: `admission ${names[i] ?? `#${i}`}` }));
  }

  mutates(operation: Operation, resource: Resource, subresource: string): boolean {
    return this.#of(operation, resource, subresource).mutate.some(busy(operation, resource, subresource));
  }

  /** The object to go on with; the same one when nobody changed it. @throws StatusError as the first refusal says */
  async mutate(call: Call, admitted: Admitted & { readonly object: KubeObject }): Promise<KubeObject> {
    const { operation, resource } = admitted;
    const { subresource } = call.request;
    const places = this.#of(operation, resource, subresource).mutate.filter(busy(operation, resource, subresource));
    if (places.length === 0) return admitted.object;
    let again = false;
    const memory = new Map<object, unknown>();
    const reinvoke = () => {
      again = true;
    };
    const object = await this.#round(call, admitted, places, { again: false, reinvoke, memory });
    if (!again) return object;
    return this.#round(call, { ...admitted, object }, places, { again: true, reinvoke, memory });
  }

  #request(call: Call, admitted: Admitted): AdmissionRequest {
    const { operation, resource, object, old, options, name } = admitted;
    const { subresource, namespace, identity, name: requested } = call.request;
    const { cause } = call;
    return {
      operation,
      resource,
      subresource,
      namespace,
      name: name ?? (requested === '' ? (object?.metadata?.name ?? '') : requested),
      object,
      old,
      options,
      identity,
      dryRun: call.dryRun,
      warn: (message) => call.warn(message),
      annotate: (key, value) => call.annotate(key, value),
      versions: () => this.#versions(resource),
      ...(cause && { cause }),
    };
  }

  async #round(
    call: Call,
    admitted: Admitted & { readonly object: KubeObject },
    places: readonly Place[],
    round: MutationRound,
  ): Promise<KubeObject> {
    let { object } = admitted;
    let asked: AdmissionRequest | undefined;
    for (const { plugin, step } of places) {
      const span = call.child(step, mutating);
      try {
        asked ??= { ...this.#request(call, { ...admitted, object: deepFreeze(object) }), round };
        const given = plugin.mutate?.(asked);
        const answer = given instanceof Promise ? await given : given;
        if (answer === undefined || answer === object) continue;
        if (isVerdict(answer)) refuse(answer, admitted, call);
        else {
          span?.setAttribute('oarlock.changed', JSON.stringify(changedPaths(object, answer)));
          object = answer;
          asked = undefined;
        }
      } finally {
        span?.end();
      }
    }
    return object;
  }

  /** @throws StatusError as the first refusal says */
  async validate(call: Call, admitted: Admitted): Promise<void> {
    const { operation, resource } = admitted;
    const { subresource } = call.request;
    const validate = this.#of(operation, resource, subresource).validate.filter(busy(operation, resource, subresource));
    if (validate.length === 0) return;
    const asked = this.#request(call, { ...admitted, object: admitted.object && deepFreeze(admitted.object) });
    for (const { plugin, step } of validate) {
      const span = call.child(step, validating);
      try {
        const answer = plugin.validate?.(asked);
        const verdict = answer instanceof Promise ? await answer : answer;
        if (verdict !== undefined) refuse(verdict, admitted, call);
      } finally {
        span?.end();
      }
    }
  }

  #of(operation: Operation, resource: Resource, subresource: string): Stages {
    const what = subresource === '' ? groupResource(resource) : `${groupResource(resource)}/${subresource}`;
    const key = `${operation} ${what}`;
    let stages = this.#stages.get(key);
    if (stages === undefined) {
      const reached = this.#places.filter(({ plugin }) =>
        plugin.matches.some(
          ({ resources, operations }) =>
            (operations.includes('*') || operations.includes(operation)) && (resources.includes(what) || resources.includes('*')),
        ),
      );
      stages = {
        mutate: reached.filter(({ plugin }) => plugin.mutate !== undefined),
        validate: reached.filter(({ plugin }) => plugin.validate !== undefined),
      };
      this.#stages.set(key, stages);
    }
    return stages;
  }
}

function refuse(verdict: Verdict, { resource, object, old, name }: Admitted, call: Call): void {
  if (verdict.allowed) return;
  if (verdict.status !== undefined) throw new StatusError(verdict.status);
  const named =
    name ??
    object?.metadata?.name ??
    old?.metadata?.name ??
    (call.request.name === '' ? (object?.metadata?.generateName ?? '') : call.request.name);
  throw refused(verdict, resource, named);
}

function refused(
  { message, reason = 'Forbidden', field }: Extract<Verdict, { readonly allowed: false }>,
  resource: Resource,
  name: string,
): StatusError {
  const details = {
    name,
    ...(resource.group !== '' && { group: resource.group }),
    kind: resource.resource,
    ...(field !== undefined && { causes: [{ message, field }] }),
  };
  switch (reason) {
    case 'Forbidden': {
      const { message: whole } = forbidden(resource, name, message);
      return failure('Forbidden', whole, details);
    }
    case 'Invalid':
      return failure(
        'Invalid',
        `${resource.group === '' ? resource.kind : `${resource.kind}.${resource.group}`} "${name}" is invalid: ${field === undefined ? '' : `${field}: `}${message}`,
        { ...details, kind: resource.kind },
      );
    case 'Conflict':
      return conflict(resource, name, message);
    case 'TooManyRequests':
      return failure('TooManyRequests', message, { ...details, retryAfterSeconds: 1 });
    case 'BadRequest':
      return badRequest(message);
    case 'NotFound':
      return failure('NotFound', message, details);
  }
}

/** JSON paths at which two objects differ, for traces: `spec.containers[0].image`. */
export function changedPaths(before: unknown, after: unknown): string[] {
  const paths: string[] = [];
  const visit = (a: unknown, b: unknown, path: string): void => {
    if (paths.length >= maxChanged || a === b) return;
    if (Array.isArray(a) && Array.isArray(b)) {
      for (let i = 0; i < Math.max(a.length, b.length); i++) visit(a[i], b[i], `${path}[${i}]`);
    } else if (isObject(a) && isObject(b)) {
      // admission copies what it changes and shares the rest
      for (const key in a) if (a[key] !== b[key]) visit(a[key], b[key], path === '' ? key : `${path}.${key}`);
      for (const key in b) if (!Object.hasOwn(a, key)) visit(undefined, b[key], path === '' ? key : `${path}.${key}`);
    } else if (!jsonEqual(a, b)) paths.push(path);
  };
  visit(before, after, '');
  return paths;
}
