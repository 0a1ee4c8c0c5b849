import { kinds, type Kind } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { apiVersionOf, groupResource } from '@oarlock/api/resource';
import { schemaOf } from '@oarlock/api/schema/schema';
import type { Status } from '@oarlock/api/status';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { applyPatch, json, jsonPatch, mergePatch, strategicPatch, Wire, type Asking } from '../conformance/cluster.ts';
import { enveloped } from '../support/protobuf-frames.ts';
import { samples } from '../support/sample-objects.ts';
import { anything, Dice, mutated, valueOf } from '../support/arbitrary-objects.ts';

/** The duration and the seed: `OARLOCK_FUZZ_SECONDS=600 OARLOCK_FUZZ_SEED=7`. */
const seconds = Number(process.env['OARLOCK_FUZZ_SECONDS'] ?? '0');
const seed = Number(process.env['OARLOCK_FUZZ_SEED'] ?? '1');
const requests = 600;
const together = 8;

const protobuf = 'application/vnd.kubernetes.protobuf';
const accepts = [
  json,
  json,
  json,
  'application/yaml',
  protobuf,
  `${protobuf},${json}`,
  `${json};as=Table;v=v1;g=meta.k8s.io,${json}`,
  `${json};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,${json};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,${json}`,
  `${protobuf};as=PartialObjectMetadata;v=v1;g=meta.k8s.io`,
  `${json};as=Table;v=v1;g=meta.k8s.io`,
  'text/html',
  '*/*',
  'application/json;q=x,,;',
];
const types = [json, json, json, 'application/yaml', 'text/plain', 'application/json; charset=latin1', ''];
const queries = [
  'dryRun=All',
  'dryRun=None',
  'fieldManager=me',
  'fieldManager=%00',
  'fieldValidation=Strict',
  'fieldValidation=Ignore',
  'fieldValidation=x',
  'force=true',
  'force=1',
  'labelSelector=a%3Db',
  'labelSelector=((',
  'fieldSelector=metadata.name%3Da',
  'fieldSelector=x%3Dy',
  'limit=1',
  'limit=-1',
  'continue=x',
  'resourceVersion=0',
  'resourceVersion=x',
  'resourceVersion=99999999',
  'resourceVersionMatch=Exact',
  'resourceVersionMatch=NotOlderThan',
  'watch=1',
  'watch=true',
  'allowWatchBookmarks=true',
  'sendInitialEvents=true',
  'includeObject=Object',
  'includeObject=x',
  'pretty=true',
  'timeout=1s',
  'timeout=x',
  'propagationPolicy=Foreground',
  'propagationPolicy=x',
  'gracePeriodSeconds=0',
  'orphanDependents=true',
  'limit=1&limit=2',
  '%zz',
  '=&&=',
  'a[]=b',
];
/**
 * Objects that would make all later requests fail: failing webhooks, proxied groups, priority levels without seats, deny rules for all
 * users.
 */
const left: ReadonlySet<string> = new Set([
  'mutatingwebhookconfigurations.admissionregistration.k8s.io',
  'validatingwebhookconfigurations.admissionregistration.k8s.io',
  'apiservices.apiregistration.k8s.io',
  'flowschemas.flowcontrol.apiserver.k8s.io',
  'prioritylevelconfigurations.flowcontrol.apiserver.k8s.io',
]);
/** Objects that the cluster needs: deleting all roles removes the controllers' permissions until a server restarts, as in Kubernetes. */
const collective = /\/(?:namespaces|(?:cluster)?roles|(?:cluster)?rolebindings)$/;
const served = kinds.filter((kind) => kind.servedByDefault && !left.has(groupResource(kind)));
const custom = { apiVersion: 'fuzz.example.com/v1', kind: 'Thing' };

let wire: Wire;
beforeAll(async () => {
  wire = await Wire.start({ nodes: 2 });
  await wire.create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'things.fuzz.example.com' },
    spec: {
      group: 'fuzz.example.com',
      scope: 'Namespaced',
      names: { plural: 'things', kind: 'Thing' },
      versions: ['v1', 'v2'].map((name) => ({
        name,
        served: true,
        storage: name === 'v1',
        subresources: { status: {}, scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' } },
        additionalPrinterColumns: [{ name: 'Text', type: 'string', jsonPath: '.spec.text' }],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                'x-kubernetes-validations': [{ rule: '!has(self.text) || self.text.size() < 60' }],
                properties: {
                  replicas: { type: 'integer', default: 1 },
                  text: { type: 'string', maxLength: 80 },
                  open: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
                  list: {
                    type: 'array',
                    'x-kubernetes-list-type': 'map',
                    'x-kubernetes-list-map-keys': ['name'],
                    items: { type: 'object', required: ['name'], properties: { name: { type: 'string' }, n: { type: 'integer' } } },
                  },
                },
              },
              status: { type: 'object', properties: { replicas: { type: 'integer' } } },
            },
          },
        },
      })),
    },
  });
  await wire.until<{ readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] } }>(
    '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.fuzz.example.com',
    (object) => object?.status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True') === true,
  );
});
afterAll(() => wire.stop());

interface Question {
  readonly method: string;
  readonly path: string;
  readonly asking: Asking;
}

function customBody(dice: Dice): unknown {
  return {
    ...custom,
    metadata: { name: dice.pick(['a', 'b', 'A_', '']) },
    spec: {
      replicas: dice.pick([1, -1, 'x', null]),
      text: dice.pick(['a', 'x'.repeat(70), 1]),
      open: anything(dice),
      list: dice.chance(0.5) ? [{ name: 'a', n: 1 }, { name: dice.pick(['a', 'b']) }] : anything(dice),
    },
    ...(dice.chance(0.2) && { extra: anything(dice) }),
  };
}

function bodyOf(dice: Dice, kind: Kind, name: string): unknown {
  const { group, version } = kind;
  const schema = schemaOf({ group, version, kind: kind.kind });
  if (dice.chance(0.02)) return anything(dice);
  const sample = samples[groupResource(kind)];
  let body: unknown = {
    apiVersion: apiVersionOf({ group, version }),
    kind: kind.kind,
    metadata: name === '' ? { generateName: 'g-' } : { name },
    ...(sample !== undefined && dice.chance(0.7) ? sample.object : ((schema && (valueOf(dice, schema) as object)) ?? {})),
  };
  for (let i = dice.below(4); i > 0; i--) body = mutated(dice, schema, body);
  return body;
}

function encoded(dice: Dice, body: unknown): { readonly body: string | Buffer; readonly type: string } {
  const type = dice.pick([...types, protobuf, protobuf]);
  if (type === protobuf) {
    try {
      const bytes = enveloped(body as KubeObject);
      if (dice.chance(0.2)) for (let i = 1 + dice.below(4); i > 0; i--) bytes[dice.below(bytes.length)] = dice.below(256);
      return { body: dice.chance(0.1) ? bytes.subarray(0, dice.below(bytes.length)) : bytes, type };
    } catch {
      // not every body has a message: it is sent as JSON under that name
    }
  }
  let text = type === 'application/yaml' ? stringify(body) : JSON.stringify(body);
  if (dice.chance(0.03)) text = text.slice(0, dice.below(text.length));
  return { body: text, type };
}

function question(dice: Dice): Question {
  const query = dice.chance(0.5) ? Array.from({ length: 1 + dice.below(3) }, () => dice.pick(queries)) : [];
  const accept = dice.pick(accepts);
  const finish = (method: string, path: string, more: Asking = {}): Question => {
    // a watch would run for half an hour
    const all = query.some((part) => part.startsWith('watch=')) && method === 'GET' ? [...query, 'timeoutSeconds=1'] : query;
    return { method, path: `${path}${all.length > 0 ? `?${all.join('&')}` : ''}`, asking: { accept, ...more } };
  };
  if (dice.chance(0.03))
    return finish(
      dice.pick(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD']),
      dice.pick([
        '/',
        '/api',
        '/apis',
        '/apis/apps',
        '/apis/apps/v1',
        '/openapi/v2',
        '/openapi/v3',
        '/openapi/v3/apis/apps/v1',
        '/version',
        '/healthz',
        '/livez',
        '/readyz',
        '/metrics',
        '/nope',
        '/api/v1/nope',
        '/api/v1/namespaces/default/pods/a/nope',
        '/apis/apps/v9/x',
        '//api',
        '/api/v1/namespaces//pods',
        '/logs/x',
      ]),
    ); // prettier-ignore
  const own = dice.chance(0.12);
  const kind = dice.pick(served);
  const sample = samples[groupResource(kind)];
  const name = dice.chance(0.8)
    ? own
      ? 'a'
      : (sample?.name ?? 'a')
    : dice.pick(['a', 'b', 'default', 'kube-system', 'node', 'A_b', 'x'.repeat(300)]);
  const namespace = dice.chance(0.9) ? 'default' : dice.pick(['kube-system', 'nowhere', 'A_']);
  const collection = own
    ? `/apis/fuzz.example.com/${dice.pick(['v1', 'v2'])}/namespaces/${namespace}/things`
    : `${kind.group === '' ? '/api' : `/apis/${kind.group}`}/${kind.version}/${kind.namespaced && dice.chance(0.95) ? `namespaces/${namespace}/` : ''}${kind.resource}`;
  const subresources = own
    ? ['status', 'scale']
    : kind.subresources.map((each) => each.name).filter((each) => !['proxy', 'exec', 'attach', 'portforward', 'log'].includes(each));
  const sub = dice.chance(0.2) && subresources.length > 0 ? `/${dice.pick(subresources)}` : '';
  const object = `${collection}/${encodeURIComponent(name)}${sub}`;
  const body = () => (own ? customBody(dice) : bodyOf(dice, kind, name));
  switch (dice.below(10)) {
    case 0:
    case 1:
      return finish('POST', sub === '' ? collection : object, encoded(dice, body()));
    case 2:
      return finish('PUT', object, encoded(dice, body()));
    case 3:
    case 4:
    case 5: {
      const type = dice.pick([mergePatch, strategicPatch, jsonPatch, applyPatch, applyPatch]);
      if (type === applyPatch && dice.chance(0.9)) query.push('fieldManager=fuzz');
      const patch =
        type === jsonPatch
          ? [
              {
                op: dice.pick(['add', 'remove', 'replace', 'test', 'copy', 'move', 'x']),
                path: dice.pick(['/spec', '/metadata/labels', '/metadata/name', '/x/y', '', '/spec/-', 'x']),
                value: anything(dice),
                from: '/metadata',
              },
            ]
          : body();
      return finish('PATCH', object, { type, body: JSON.stringify(patch) });
    }
    case 6:
      return finish('GET', object);
    case 7:
      return finish('GET', collection);
    case 8:
      return finish(
        'DELETE',
        object,
        dice.chance(0.4)
          ? { body: JSON.stringify(valueOf(dice, schemaOf({ group: '', version: 'v1', kind: 'DeleteOptions' }) ?? { type: 'any' })) }
          : {},
      );
    default:
      return finish(dice.chance(0.1) && !collective.test(collection) ? 'DELETE' : 'GET', collection);
  }
}

/** Rejections with 500 that upstream returns, too: a webhook or extension server failed, or an apply configuration does not fit the schema. */
const theirs =
  /more than one PodDisruptionBudget|failed to create typed patch object|Too large resource version|conversion webhook|failed calling webhook|failed to allocate a serviceIP|failed to configure/;

/** The maximum number of reported faults; a broken cluster would fill any list. */
const faults: string[] = [];
const enough = 25;

async function ask({ method, path, asking }: Question, title: string): Promise<void> {
  const { code, bytes } = await wire.call(method, path, asking);
  if (code < 500) return;
  const text = bytes.toString();
  let message = text;
  try {
    message = (JSON.parse(text) as Status).message ?? text;
  } catch {
    // an answer in another form
  }
  if (theirs.test(message) || (code === 504 && path.includes('timeout=1s')) || (code === 503 && path.includes('/proxy'))) return;
  const sent = asking.body === undefined ? '' : Buffer.from(asking.body as string).toString(asking.type === protobuf ? 'base64' : 'utf8');
  const form = `${asking.type ?? ''} for ${asking.accept ?? ''}`;
  faults.push(`${title}: ${method} ${path} (${form}) ended in ${code} ${message}\n${sent.slice(0, 1500)}`);
}

it(
  'returns no unexpected error for random requests in all formats, and keeps running',
  async () => {
    const end = Date.now() + seconds * 1000;
    for (let done = 0, round = 0; (done < requests || Date.now() < end) && faults.length < enough; round++) {
      const dice = new Dice(seed + round);
      const questions = Array.from({ length: together }, () => question(dice));
      done += questions.length;
      await Promise.all(questions.map((each, i) => ask(each, `seed ${seed + round}, request ${i}`)));
    }
    expect(faults).toEqual([]);
    expect((await wire.call('GET', '/livez')).code).toBe(200);
    // a policy that matches everything would affect all later requests
    for (const bindings of ['validatingadmissionpolicybindings', 'mutatingadmissionpolicybindings'])
      await wire.remove(`/apis/admissionregistration.k8s.io/v1/${bindings}`);
    const created = await wire.create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { generateName: 'after-' } });
    await wire.until(`/api/v1/namespaces/${created.metadata?.name}/configmaps/kube-root-ca.crt`, (object) => object !== undefined);
  },
  Math.max(120_000, (seconds + 90) * 1000),
);
