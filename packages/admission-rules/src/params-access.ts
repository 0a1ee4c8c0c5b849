import { parseApiVersion } from '@oarlock/api/kinds';
import type { ParamKind, ParamRef } from '@oarlock/api/types/admissionregistration-v1';
import { deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import type { Authorizer, ResourceAttributes } from '@oarlock/spi/authz';
import { decide } from './request-bindings.ts';
import type { PolicyParams } from './policy-params.ts';

/** Who may do everything is not asked. */
const superusers = 'system:masters';

/**
 * A policy tells its users of its parameters: whoever writes it must be able to read them all, and whoever writes a binding those that it
 * names. undefined: so it is.
 */
export class ParamsAccess {
  readonly #authz: readonly Authorizer[];
  readonly #params: PolicyParams;
  constructor(authz: readonly Authorizer[], params: PolicyParams) {
    this.#authz = authz;
    this.#params = params;
  }

  async policy(request: AdmissionRequest, kind: ParamKind | undefined, old: ParamKind | undefined): Promise<Verdict | undefined> {
    if (kind === undefined || this.#exempt(request) || (old !== undefined && old.kind === kind.kind && old.apiVersion === kind.apiVersion))
      return undefined;
    if (await this.#allowed(request, kind, '*', '*')) return undefined;
    return deny(
      `Forbidden: user ${request.identity.name} must have "get" permission on all objects of the referenced paramKind (kind=${kind.kind}, apiVersion=${kind.apiVersion})`,
      { reason: 'Invalid', field: 'spec.paramKind' },
    );
  }

  /** `kind` is that of the policy, where that is known already. */
  async binding(
    request: AdmissionRequest,
    ref: ParamRef | undefined,
    old: ParamRef | undefined,
    kind: ParamKind | undefined,
  ): Promise<Verdict | undefined> {
    if (ref === undefined || this.#exempt(request) || JSON.stringify(ref) === JSON.stringify(old)) return undefined;
    const { name = '*', namespace = '*' } = ref;
    if (await this.#allowed(request, kind, namespace || '*', name || '*')) return undefined;
    return deny(`Forbidden: user ${request.identity.name} must have "get" permission on the object(s) referenced by paramRef`, {
      reason: 'Invalid',
      field: 'spec.paramRef',
    });
  }

  #exempt({ identity }: AdmissionRequest): boolean {
    return identity.groups.includes(superusers);
  }

  async #allowed({ identity }: AdmissionRequest, kind: ParamKind | undefined, namespace: string, name: string): Promise<boolean> {
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
    const answer = decide(this.#authz, attributes);
    return (answer instanceof Promise ? await answer : answer).decision === 'allow';
  }
}
