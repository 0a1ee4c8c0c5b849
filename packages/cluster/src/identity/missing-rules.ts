import { isStatus } from '@oarlock/api/status';
import { runningPlugin } from '@oarlock/kernel/plugin-health';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { Logger } from '@oarlock/primitives/logger';
import type { Client } from '@oarlock/spi/client';

/** A permission in the short form of `declares.rules`. */
interface MissingRule {
  readonly verbs: readonly string[];
  /** Group and resource, such as `apps | deployments/scale`. */
  readonly target: string;
}

/** Number of resources for which a controller's missing permissions are collected. */
const maxTargets = 64;

/** The API server's message for a request that no authorizer allows. Admission plugins reject with the same reason and another message. */
const unauthorized = /User "[^"]*" cannot ([a-z]+) resource "([a-z0-9./-]+)" in API group "([a-z0-9.-]*)"/;

/** Verbs that a component needs together: informers list and watch. */
const together: Readonly<Record<string, readonly string[]>> = { list: ['list', 'watch'], watch: ['list', 'watch'] };

function missingRule(error: unknown): MissingRule | undefined {
  if (!isStatus(error, 'Forbidden')) return undefined;
  const [, verb, resource, group] = unauthorized.exec(error.message) ?? [];
  if (verb === undefined) return undefined;
  return { verbs: together[verb] ?? [verb], target: `${group === '' ? 'core' : group} | ${resource}` };
}

/** Collects the permissions that the API server denied to a controller, and returns the declaration with which it would have them. */
export class MissingRules {
  readonly #declared: Plugin['declares'];
  readonly #verbs = new Map<string, Set<string>>();

  constructor(declared: Plugin['declares']) {
    this.#declared = declared;
  }

  /** Records the permission that an error is about. Returns false if the error is about none, or about a recorded one. */
  add(error: unknown): boolean {
    const rule = missingRule(error);
    if (rule === undefined) return false;
    const verbs = this.#verbs.get(rule.target) ?? new Set();
    if (rule.verbs.every((verb) => verbs.has(verb)) || (verbs.size === 0 && this.#verbs.size >= maxTargets)) return false;
    for (const verb of rule.verbs) verbs.add(verb);
    this.#verbs.set(rule.target, verbs);
    return true;
  }

  /** Returns true if the error is about a permission that the controller lacks. */
  concerns = (error: unknown): boolean => missingRule(error) !== undefined;

  /** The `declares` of the plugin with the missing rules, as its author writes it. */
  get declaration(): string {
    const present = String(this.#declared?.['rules'] ?? '').replace(/[;\s]+$/, '');
    const missing = [...this.#verbs].map(([target, verbs]) => `${[...verbs].join(',')} | ${target}`);
    const declared = { ...this.#declared, rules: [...(present === '' ? [] : [present]), ...missing].join('; ') };
    const entries = Object.entries(declared).map(([key, value]) => `${key}: ${typeof value === 'string' ? `'${value}'` : String(value)}`);
    return `declares: { ${entries.join(', ')} }`;
  }
}

/**
 * Returns the client of a controller. A request that the API server rejects because the controller does not declare the permission is logged, once for
 * each permission, and makes the plugin unhealthy. Both texts contain the declaration to write.
 */
export function reportMissingRules(
  client: Client,
  { plugin, log }: { readonly plugin: Pick<Plugin, 'declares'>; readonly log: Logger },
): Client {
  const missing = new MissingRules(plugin.declares);
  const health = runningPlugin();
  return observeErrors(client, (error) => {
    const isNew = missing.add(error);
    if (!missing.concerns(error)) return;
    const remedy = `the controller does not declare a permission that it uses; write in the plugin \`${missing.declaration}\` and restart the cluster`;
    health?.report('denied', new Error(remedy));
    if (isNew) log.warn({ err: error }, remedy);
  });
}

/** Returns a client that calls `onError` with each error before its caller receives it. */
function observeErrors(client: Client, onError: (error: unknown) => void): Client {
  const observe = <T>(answer: Promise<T>): Promise<T> =>
    answer.catch((error: unknown) => {
      onError(error);
      throw error;
    });
  return {
    get: (resource, name, options) => observe(client.get(resource, name, options)),
    list: (resource, options) => observe(client.list(resource, options)),
    create: (resource, object, options) => observe(client.create(resource, object, options)),
    update: (resource, object, options) => observe(client.update(resource, object, options)),
    patch: (...args) => observe(client.patch(...args)),
    delete: (resource, name, options) => observe(client.delete(resource, name, options)),
    deleteCollection: (resource, options) => observe(client.deleteCollection(resource, options)),
    raw: (...args) => observe(client.raw(...args)),
    async *watch(resource, options) {
      try {
        yield* client.watch(resource, options);
      } catch (error) {
        onError(error);
        throw error;
      }
    },
    withSpanContext: (spanContext) => observeErrors(client.withSpanContext(spanContext), onError),
  };
}
