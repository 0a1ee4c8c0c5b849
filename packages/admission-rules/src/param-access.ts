import { parseApiVersion } from '@oarlock/api/kinds';
import type { ParamKind, ParamRef } from '@oarlock/api/types/admissionregistration-v1';
import { deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import type { Authorizer, ResourceAttributes } from '@oarlock/spi/authz';
import { authorize } from './request-bindings.ts';
import type { PolicyParams } from './policy-params.ts';

/** The group whose members may reference any parameters. */
const superusers = 'system:masters';

/** A parameter reference of a binding: its new and old form, and the kind of the parameters. */
export interface ParamBinding {
  readonly ref: ParamRef | undefined;
  readonly old: ParamRef | undefined;
  readonly kind: ParamKind | undefined;
}

/**
 * Authorizes references to parameters. A policy reveals the content of its parameters to its users, so the writer of a policy needs
 * permission to get all objects of the paramKind, and the writer of a binding permission to get the objects that its paramRef selects. The
 * methods return a denial, or undefined if the reference is allowed.
 */
export class ParamAccess {
  readonly #authz: readonly Authorizer[];
  readonly #params: PolicyParams;
  constructor(authz: readonly Authorizer[], params: PolicyParams) {
    this.#authz = authz;
    this.#params = params;
  }

  async policy(request: AdmissionRequest, kind: ParamKind | undefined, old: ParamKind | undefined): Promise<AdmissionDecision | undefined> {
    if (kind === undefined || this.#exempt(request) || (old !== undefined && old.kind === kind.kind && old.apiVersion === kind.apiVersion))
      return undefined;
    if (await this.#allowed(request, { kind, namespace: '*', name: '*' })) return undefined;
    return deny(
      `Forbidden: user ${request.identity.name} must have "get" permission on all objects of the referenced paramKind (kind=${kind.kind}, apiVersion=${kind.apiVersion})`,
      { reason: 'Invalid', field: 'spec.paramKind' },
    );
  }

  /** Authorizes the paramRef of a binding. `kind` is the paramKind of the policy; undefined if the policy is not known. */
  async binding(request: AdmissionRequest, { ref, old, kind }: ParamBinding): Promise<AdmissionDecision | undefined> {
    if (ref === undefined || this.#exempt(request) || JSON.stringify(ref) === JSON.stringify(old)) return undefined;
    const { name = '*', namespace = '*' } = ref;
    if (await this.#allowed(request, { kind, namespace: namespace || '*', name: name || '*' })) return undefined;
    return deny(`Forbidden: user ${request.identity.name} must have "get" permission on the object(s) referenced by paramRef`, {
      reason: 'Invalid',
      field: 'spec.paramRef',
    });
  }

  #exempt({ identity }: AdmissionRequest): boolean {
    return identity.groups.includes(superusers);
  }

  async #allowed(
    { identity }: AdmissionRequest,
    { kind, namespace, name }: { readonly kind: ParamKind | undefined; readonly namespace: string; readonly name: string },
  ): Promise<boolean> {
    const { group, version } = kind === undefined ? { group: '*', version: '*' } : parseApiVersion(kind.apiVersion ?? '');
    const resource = kind === undefined ? '*' : await this.#params.resourceName(kind);
    const attributes: ResourceAttributes = {
      kind: 'resource',
      identity,
      verb: 'get',
      group,
      version,
      resource,
      subresource: '',
      namespace,
      name,
    };
    const answer = authorize(this.#authz, attributes);
    return (answer instanceof Promise ? await answer : answer).decision === 'allow';
  }
}
