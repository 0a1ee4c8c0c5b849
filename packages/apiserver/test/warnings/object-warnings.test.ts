import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kindOfResource } from '@oarlock/api/kinds';
import { apiVersionOf } from '@oarlock/api/resource';
import { StatusError } from '@oarlock/api/status';
import { deprecationWarning } from '../../src/registry/served-kind.ts';
import { resourceNamed, TestServer } from '../support/pipeline-fixture.ts';
import { samples } from '../support/sample-objects.ts';
import { endpointsDeprecation, warningFacts, type WarningFact } from './warning-facts.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

let held = 0;
afterAll(() => {
  process.stdout.write(`Warnings: ${held} of ${warningFacts.length} hold\n`);
});

/** Writes objects of the kind of a fact, and collects the warnings. */
class Writer {
  readonly #resource;
  readonly #name: string;

  constructor({ resource, name }: WarningFact) {
    this.#resource = resourceNamed(resource);
    this.#name = name ?? samples[resource]?.name ?? 'x';
  }

  body(fields: Readonly<Record<string, unknown>>, name = this.#name): KubeObject {
    const { metadata, ...rest } = fields as { readonly metadata?: object };
    // the name of a pod template is not part of the pod
    return { ...rest, kind: this.#resource.kind, apiVersion: apiVersionOf(this.#resource), metadata: { ...metadata, name } };
  }

  async write(verb: ApiRequest['verb'], body: unknown, options: Partial<ApiRequest> = {}): Promise<readonly string[]> {
    const response = await server.handle(verb, this.#resource, {
      namespace: this.#resource.namespaced ? 'default' : '',
      name: verb === 'create' ? '' : this.#name,
      body,
      ...options,
    });
    return response.kind === 'object' ? response.warnings : [];
  }

  apply(fields: Readonly<Record<string, unknown>>, query: Record<string, string> = {}): Promise<readonly string[]> {
    return this.write('patch', this.body(fields), { patchType: 'apply', query: { fieldManager: 'm', force: 'true', ...query } });
  }
}

/** Returns the object that exists before an update: the sample of the kind. */
function objectBefore({ before, resource, object }: WarningFact): Readonly<Record<string, unknown>> {
  return before ?? (resource === 'cronjobs.batch' || samples[resource] === undefined ? withoutTrigger(object) : samples[resource].object);
}
const withoutTrigger = (object: Readonly<Record<string, unknown>>) => {
  const { spec } = object as { readonly spec?: { readonly schedule?: string } };
  if (spec?.schedule === undefined) return {};
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'i' }] } };
  return { spec: { schedule: '0 0 * * *', jobTemplate: { spec: { template } } } };
};

const afterAdmission = (warnings: readonly string[]) =>
  warnings.map((text) => text.replace('duplicate entries;', 'duplicate entries after mutating admission happens;'));

/** Runs all forms of creation: POST, a dry run, and apply. */
async function checkCreate(fact: WarningFact, expected: readonly string[]): Promise<void> {
  const writer = new Writer(fact);
  const body = writer.body(fact.object);
  expect(await writer.write('create', body, { query: { dryRun: 'All' } })).toEqual(expected);
  const applied = await writer.apply(fact.object, { dryRun: 'All' }).catch((error: unknown) => {
    // apply rejects lists whose entries have the same key
    if (error instanceof StatusError && error.message.includes('duplicate entries for key')) return undefined;
    throw error;
  });
  if (applied !== undefined) expect(applied).toEqual(afterAdmission(expected));
  expect(await writer.write('create', body)).toEqual(expected);
}

/** Runs all forms of an update: PUT, a dry run, and a merge patch. */
async function checkUpdate(fact: WarningFact, expected: readonly string[]): Promise<void> {
  const writer = new Writer(fact);
  await writer.write('create', writer.body(objectBefore(fact)));
  const patch = { ...writer.body(fact.object), apiVersion: undefined, kind: undefined };
  expect(await writer.write('patch', patch, { patchType: 'merge', query: { dryRun: 'All' } })).toEqual(afterAdmission(expected));
  const now = await server.object('get', resourceNamed(fact.resource), {
    namespace: resourceNamed(fact.resource).namespaced ? 'default' : '',
    name: fact.name ?? samples[fact.resource]?.name ?? 'x',
  });
  const merged = merge(now, writer.body(fact.object)) as KubeObject;
  expect(await writer.write('update', merged, { query: { dryRun: 'All' } })).toEqual(expected);
  expect(await writer.write('update', merged)).toEqual(expected);
}

const isFields = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
function merge(object: unknown, patch: unknown): unknown {
  if (!isFields(object) || !isFields(patch)) return patch;
  const result: Record<string, unknown> = { ...object };
  for (const [key, value] of Object.entries(patch)) result[key] = merge(object[key], value);
  return result;
}

async function checkStatus(fact: WarningFact, expected: readonly string[]): Promise<void> {
  const writer = new Writer(fact);
  await writer.write('create', writer.body(objectBefore(fact)));
  expect(await writer.write('patch', fact.object, { patchType: 'merge', subresource: 'status' })).toEqual(expected);
}

describe.each([...new Set(warningFacts.map(({ resource }) => resource))])('a write of %s', (kind) => {
  const facts = warningFacts.filter(({ resource }) => resource === kind);
  it.each(facts.map((fact) => [fact.title, fact] as const))('warns if the object %s', async (_title, fact) => {
    const expected = [...(fact.isDeprecatedVersion === true ? [endpointsDeprecation] : []), ...fact.warnings];
    for (const operation of fact.on ?? ['create', 'update']) {
      if (operation === 'create') await checkCreate(fact, expected);
      else if (operation === 'update') {
        await server.stop();
        server = await TestServer.start();
        await checkUpdate(fact, expected);
      } else await checkStatus(fact, expected);
    }
    held++;
  });
});

describe('a deletion of a Job', () => {
  const text =
    'child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning';
  it.each([
    ['without a propagation policy', {}, [text]],
    ['with propagationPolicy', { propagationPolicy: 'Background' }, []],
    ['with orphanDependents', { orphanDependents: false }, []],
  ])('%s has the warnings %#', async (_, body, expected) => {
    const writer = new Writer({ title: '', resource: 'jobs.batch', object: {}, warnings: [] });
    await writer.write('create', writer.body(samples['jobs.batch']?.object ?? {}));
    expect(await writer.write('delete', body, { query: { dryRun: 'All' } })).toEqual(expected);
    const collection = await server.handle('deletecollection', 'jobs.batch', { namespace: 'default', body });
    expect(collection).toMatchObject({ warnings: expected });
  });
});

describe('a request for a deprecated version', () => {
  const versions: readonly (readonly [group: string, version: string, resource: string, kind: string, text: string])[] = [
    [
      'storage.k8s.io',
      'v1beta1',
      'volumeattributesclasses',
      'VolumeAttributesClass',
      'v1.34+, unavailable in v1.37+; use storage.k8s.io/v1 VolumeAttributesClass',
    ],
    ['networking.k8s.io', 'v1beta1', 'ipaddresses', 'IPAddress', 'v1.34+, unavailable in v1.37+'],
    ['networking.k8s.io', 'v1beta1', 'servicecidrs', 'ServiceCIDR', 'v1.34+, unavailable in v1.37+'],
    ['resource.k8s.io', 'v1beta1', 'resourceclaims', 'ResourceClaim', 'v1.35+, unavailable in v1.38+'],
    ['resource.k8s.io', 'v1beta2', 'deviceclasses', 'DeviceClass', 'v1.36+, unavailable in v1.39+'],
    ['resource.k8s.io', 'v1alpha3', 'devicetaintrules', 'DeviceTaintRule', 'v1.36+, unavailable in v1.39+'],
    ['certificates.k8s.io', 'v1beta1', 'clustertrustbundles', 'ClusterTrustBundle', 'v1.36+, unavailable in v1.39+'],
  ];
  it.each(versions)('%s/%s %s has a warning', (group, version, plural, kind, text) => {
    expect(deprecationWarning(group, version, plural)).toBe(`${group}/${version} ${kind} is deprecated in ${text}`);
  });
});

describe('a write without a trigger', () => {
  it('has no warnings', async () => {
    for (const [resource, sample] of Object.entries(samples)) {
      const [plural = '', ...group] = resource.split('.');
      const isStable = ['v1', 'v2'].some((version) => kindOfResource({ group: group.join('.'), version, resource: plural }) !== undefined);
      if (!isStable) continue;
      const fact: WarningFact = { title: '', resource, object: sample.object, warnings: [] };
      const warnings = await new Writer(fact).write('create', new Writer(fact).body(sample.object));
      expect([resource, warnings]).toEqual([resource, resource === 'endpoints' ? [endpointsDeprecation] : []]);
    }
  });
  it('that does not change a template has no warnings about it', async () => {
    const template = {
      metadata: { labels: { app: 'x' } },
      spec: { containers: [{ name: 'c', image: 'i' }], nodeSelector: { 'beta.kubernetes.io/os': 'linux' } },
    };
    const fact: WarningFact = {
      title: '',
      resource: 'deployments.apps',
      object: { spec: { selector: { matchLabels: { app: 'x' } }, template } },
      warnings: [],
    };
    const writer = new Writer(fact);
    expect(await writer.write('create', writer.body(fact.object))).toHaveLength(1);
    expect(await writer.write('patch', { metadata: { labels: { a: 'b' } } }, { patchType: 'merge' })).toEqual([]);
    expect(jsonEqual((await server.get('deployments.apps', 'x')).metadata?.labels, { a: 'b' })).toBe(true);
  });
});
