import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import { selectorFromLabelSelector } from '@oarlock/api/selectors/label-selector';
import type { KubeObject } from '@oarlock/api/object';
import { resource, type Resource } from '@oarlock/api/resource';
import { isStatus } from '@oarlock/api/status';
import type { ParamKind, ParamRef } from '@oarlock/api/types/admissionregistration-v1';
import type { AdmissionRequest } from '@oarlock/spi/admission';
import type { Client } from '@oarlock/spi/client';

/** An error of the configuration of a policy or binding, because of which the policy cannot be evaluated. */
export class ConfigurationError extends Error {}

/** Reads the parameter objects that policy bindings reference. */
export class PolicyParams {
  readonly #client: Client;
  readonly #resources = new Map<string, Resource>();
  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * Returns the parameter objects for one evaluation each: `[undefined]` for a policy without paramKind or a binding without paramRef, and
   * an empty list if no object exists and parameterNotFoundAction is not Deny.
   * @throws ConfigurationError if the paramKind or the paramRef is invalid, or if no object exists and parameterNotFoundAction is Deny
   */
  async of(
    kind: ParamKind | undefined,
    ref: ParamRef | undefined,
    request: AdmissionRequest,
  ): Promise<readonly (KubeObject | undefined)[]> {
    if (kind === undefined || ref === undefined) return [undefined];
    const of = await this.#resource(kind);
    const namespace = this.#namespace(of, ref, request);
    const found = await this.#find(of, ref, namespace);
    if (found.length === 0 && ref.parameterNotFoundAction === 'Deny')
      throw new ConfigurationError('no params found for policy binding with `Deny` parameterNotFoundAction');
    return found;
  }

  /** Returns the resource name of a kind, or `*` if discovery does not list the kind. */
  async resourceName(kind: ParamKind): Promise<string> {
    try {
      return (await this.#resource(kind)).resource;
    } catch (error) {
      if (error instanceof ConfigurationError) return '*';
      throw error;
    }
  }

  #namespace({ namespaced }: Resource, { namespace }: ParamRef, request: AdmissionRequest): string | undefined {
    if (!namespaced) {
      if (namespace) throw new ConfigurationError('paramRef.namespace must not be provided for a cluster-scoped `paramKind`');
      return undefined;
    }
    if (namespace) return namespace;
    if (request.namespace !== '') return request.namespace;
    if (request.resource.group === '' && request.resource.resource === 'namespaces' && request.name !== '') return request.name;
    throw new ConfigurationError('cannot use namespaced paramRef in policy binding that matches cluster-scoped resources');
  }

  async #find(of: Resource, { name, selector }: ParamRef, namespace: string | undefined): Promise<readonly KubeObject[]> {
    const within = namespace === undefined ? {} : { namespace };
    if (name) {
      try {
        return [await this.#client.get(of, { ...within, name })];
      } catch (error) {
        if (isStatus(error, 'NotFound')) return [];
        throw error;
      }
    }
    if (selector === undefined) throw new ConfigurationError('either name or selector must be set on a paramRef');
    const compiled = selectorFromLabelSelector(selector);
    const { items } = await this.#client.list(of, { ...within, ...(!compiled.empty && { labelSelector: compiled.toString() }) });
    return items;
  }

  async #resource({ apiVersion = '', kind = '' }: ParamKind): Promise<Resource> {
    const { group, version } = parseApiVersion(apiVersion);
    const known = kindOf({ group, version, kind });
    if (known !== undefined) return resource(group, version, known.resource, kind, known.namespaced);
    const key = `${apiVersion} ${kind}`;
    const cached = this.#resources.get(key);
    if (cached !== undefined) return cached;
    const found = await this.#discover(group, version, kind);
    if (found === undefined) throw new ConfigurationError(`failed to find resource referenced by paramKind: '${apiVersion}, Kind=${kind}'`);
    this.#resources.set(key, found);
    return found;
  }

  async #discover(group: string, version: string, kind: string): Promise<Resource | undefined> {
    try {
      const list = (await this.#client.raw('GET', group === '' ? `/api/${version}` : `/apis/${group}/${version}`)) as ResourceList;
      const found = list.resources?.find((each) => each.kind === kind && !each.name.includes('/'));
      return found === undefined ? undefined : resource(group, version, found.name, kind, found.namespaced);
    } catch (error) {
      if (isStatus(error, 'NotFound')) return undefined;
      throw error;
    }
  }
}

interface ResourceList {
  readonly resources?: readonly { readonly name: string; readonly kind: string; readonly namespaced: boolean }[];
}
