import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import { until } from '../harness/until.ts';
import { Caller, clientCertificate, type Reply } from './support/callers.ts';

const machine = Machine.use();
let cluster: Cluster;
let anonymous: Caller;
let ada: Caller;
let admin: Caller;

beforeAll(async () => {
  cluster = await machine.cluster({
    spec: { ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }), roles: ['apiserver', 'controllers'] },
  });
  const { kubectl, api } = cluster;
  await kubectl.run(['create', 'namespace', 'team']);
  await kubectl.run(['create', 'secret', 'generic', 'hidden', '-n', 'team', '--from-literal=a=treasure']);
  // ada reads one Secret and the path /openapi, and lists ConfigMaps of one namespace
  await kubectl.run(['create', 'secret', 'generic', 'open', '-n', 'team', '--from-literal=a=b']);
  await kubectl.run(['create', 'role', 'one', '-n', 'team', '--verb=get', '--resource=secrets', '--resource-name=open']);
  await kubectl.run(['create', 'rolebinding', 'one', '-n', 'team', '--role=one', '--user=ada']);
  anonymous = new Caller(cluster, {});
  ada = new Caller(cluster, await clientCertificate(cluster, 'ada'));
  admin = new Caller(cluster, { cert: api.tls.cert, key: api.tls.key });
  await until('ada reads her Secret', async () => (await ada.call('GET', '/api/v1/namespaces/team/secrets/open')).status === 200);
});
afterAll(() => {
  for (const caller of [anonymous, ada, admin]) caller.close();
});

const treasure = Buffer.from('treasure').toString('base64');
const head = (target: string, lines: readonly string[] = [], method = 'GET') =>
  Buffer.from([`${method} ${target} HTTP/1.1`, 'host: oarlock', 'connection: close', ...lines, '', ''].join('\r\n'), 'latin1');
/** A request is rejected: 4xx, or the connection is closed; never a success, a fault of the server, or the content. */
const isRejected = ({ status, body }: Reply) => (status === 0 || (status >= 400 && status < 500)) && !body.includes(treasure);
const secrets = '/api/v1/namespaces/team/secrets';

/** Targets that a lenient parser reads as the hidden Secret, or as a path that needs no rights. */
const targets: readonly string[] = [
  `${secrets}/hidden`,
  `${secrets}/open/../hidden`,
  `${secrets}/open/..%2fhidden`,
  `${secrets}/open%2f..%2fhidden`,
  `${secrets}/open/%2e%2e/hidden`,
  `${secrets}/open/%252e%252e/hidden`,
  `${secrets}/open/./../hidden`,
  `${secrets}//hidden`,
  `//api/v1/namespaces/team/secrets/hidden`,
  `/./api/v1/namespaces/team/secrets/hidden`,
  `/healthz/../api/v1/namespaces/team/secrets/hidden`,
  `/healthz/%2e%2e/api/v1/namespaces/team/secrets/hidden`,
  `/version/..;/api/v1/namespaces/team/secrets/hidden`,
  `/openapi/v2/../../api/v1/namespaces/team/secrets/hidden`,
  `/api/v1/namespaces/team%2fsecrets%2fhidden`,
  `/api/v1/namespaces%2fteam/secrets/hidden`,
  `/api%2fv1/namespaces/team/secrets/hidden`,
  `/api/v1/namespaces/team/secrets%2fhidden`,
  `${secrets}/hidden%00`,
  `${secrets}/open%00/../hidden`,
  `${secrets}/hidden%20`,
  `${secrets}/HIDDEN`,
  `${secrets}/hidden/`,
  `${secrets}/hidden;a=b`,
  `${secrets}/hidden%3fa=b`,
  `${secrets}/hidden#open`,
  `${secrets}/open%23/../hidden`,
  `${secrets}\\hidden`,
  `${secrets}/open\\..\\hidden`,
  `${secrets}/%68idden`,
  `${secrets}/%2568idden`,
  // overlong UTF-8 of "/" and ".", a lone continuation byte, a surrogate, a byte order mark
  `${secrets}/open%c0%af..%c0%afhidden`,
  `${secrets}/open/%c0%ae%c0%ae/hidden`,
  `${secrets}/open%e0%80%af..%e0%80%afhidden`,
  `${secrets}/%80hidden`,
  `${secrets}/%ed%a0%80hidden`,
  `${secrets}/%ef%bb%bfhidden`,
  `${secrets}/%`,
  `${secrets}/%zz`,
  `${secrets}/%u0068idden`,
  `${secrets}/open?name=hidden/../../hidden`,
  `/api/v1/watch/namespaces/team/secrets/hidden`,
  `/api/v1/namespaces/team/secrets?fieldSelector=metadata.name%3Dhidden`,
  `/api/v1/namespaces/team/secrets?fieldSelector=metadata.name%3Dopen&fieldSelector=metadata.name%3Dhidden`,
  `/api/v1/secrets?namespace=team`,
  `/api/v1/namespaces/*/secrets/hidden`,
  `/api/v1/namespaces/team/secrets/*`,
  `/api/v1/namespaces/team/%73ecrets/hidden`,
  'http://oarlock/api/v1/namespaces/team/secrets/hidden',
  'https://oarlock:1/api/v1/namespaces/team/secrets/hidden',
  '*',
  'api/v1/namespaces/team/secrets/hidden',
  '/api/v1/proxy/namespaces/team/services/x/../../../../../namespaces/team/secrets/hidden',
  '/apis/../api/v1/namespaces/team/secrets/hidden',
  '/oarlock/v1/ca/../backup',
  '/oarlock/v1/ca%2f..%2fbackup',
  '/oarlock/v1/CA',
];

describe('a target of a request', () => {
  it.each(targets)('%j gives an anonymous caller and a user without the right nothing', async (target) => {
    for (const caller of [anonymous, ada]) {
      const reply = await caller.raw(head(target));
      // the public document itself is no secret
      const isHarmless = reply.status === 200 && !reply.body.includes(treasure) && /"name":"open"/.test(reply.body);
      expect([target, reply.status, isRejected(reply) || isHarmless]).toEqual([target, reply.status, true]);
    }
  });

  it.each(targets)('%j is the hidden Secret for the administrator only in its normal form', async (target) => {
    const reply = await admin.raw(head(target));
    expect(reply.status).toBeLessThan(500);
    const readable = reply.body.includes(treasure);
    if (!readable) return;
    // what the administrator reads there, the authorizers saw as this Secret or as a list of Secrets
    const reviewed = await ada.raw(head(target));
    expect([target, isRejected(reviewed)]).toEqual([target, true]);
  });
});

describe('a head of a request', () => {
  const body = '0\r\n\r\n';
  const heads: readonly (readonly [string, readonly string[], string?])[] = [
    ['both lengths', ['content-length: 5', 'transfer-encoding: chunked'], 'POST'],
    ['two lengths', ['content-length: 5', 'content-length: 6'], 'POST'],
    ['a signed length', ['content-length: +5'], 'POST'],
    ['a length in hexadecimal', ['content-length: 0x5'], 'POST'],
    ['an unknown transfer coding', ['transfer-encoding: xchunked'], 'POST'],
    ['two transfer codings', ['transfer-encoding: chunked, identity'], 'POST'],
    ['a space before the colon', ['content-length : 5'], 'POST'],
    ['a folded line', ['x-a: b', ' c: d']],
    ['a NUL', ['x-a: b\0c']],
    ['a bare carriage return', ['x-a: b\rauthorization: Bearer x']],
    ['a name that is not a token', ['x a: b']],
    ['no name', [': b']],
    ['two hosts', ['host: other']],
    ['two credentials', ['authorization: Bearer a', 'authorization: Bearer b']],
    ['empty credentials', ['authorization: Bearer ']],
    ['an unknown scheme', ['authorization: Negotiate abc']],
    ['a token with NUL', ['authorization: Bearer a\0b']],
    ['an impersonated master', ['impersonate-user: kubernetes-admin', 'impersonate-group: system:masters']],
    ['impersonation in other letters', ['IMPERSONATE-USER: kubernetes-admin']],
    ['impersonation with underscores', ['impersonate_user: kubernetes-admin']],
    ['a front proxy', ['x-remote-user: kubernetes-admin', 'x-remote-group: system:masters']],
    ['another method by header', ['x-http-method-override: GET', 'x-original-url: /healthz', 'x-rewrite-url: /healthz'], 'POST'],
    ['an upgrade to HTTP/2', ['connection: upgrade, http2-settings', 'upgrade: h2c', 'http2-settings: AAMAAABkAAQAAP__']],
    ['an upgrade to nothing known', ['connection: upgrade', 'upgrade: websocket, spdy/3.1, raw']],
  ];
  it.each(heads.map(([name, lines, method]) => ({ name, lines, method })))('with $name gives no access', async ({ lines, method }) => {
    for (const caller of [anonymous, ada]) {
      const reply = await caller.raw(
        Buffer.concat([head(`${secrets}/hidden`, lines, method), Buffer.from(method === undefined ? '' : body)]),
      );
      expect([reply.status, isRejected(reply)]).toEqual([reply.status, true]);
    }
  });

  it('of an unknown method gives no access, in letters of any case', async () => {
    for (const method of ['get', 'GeT', 'TRACE', 'CONNECT', 'PROPFIND', 'OPTIONS', 'HEAD', 'G\0T', 'PRI'])
      for (const caller of [anonymous, ada]) {
        const reply = await caller.raw(head(`${secrets}/hidden`, [], method));
        expect([method, reply.status, isRejected(reply)]).toEqual([method, reply.status, true]);
      }
  });

  it('does not smuggle a second request with other credentials', async () => {
    const smuggled = `GET ${secrets}/hidden HTTP/1.1\r\nhost: x\r\nimpersonate-user: kubernetes-admin\r\n\r\n`;
    const first = head('/healthz', [`content-length: ${smuggled.length}`], 'GET')
      .toString('latin1')
      .replace('connection: close\r\n', '');
    const reply = await ada.raw(Buffer.from(`${first}${smuggled}`, 'latin1'));
    expect(reply.body).not.toContain(treasure);
    const pipelined = await ada.raw(Buffer.from(`${first.replace(/content-length: \d+\r\n/, '')}${smuggled}`, 'latin1'));
    expect(pipelined.body).not.toContain(treasure);
  });
});

describe('a key of JSON', () => {
  const hostile = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf'];
  const polluted = async () => {
    // an object that inherits a property would show it here, and a polluted prototype breaks the server altogether
    const version = JSON.parse((await admin.call('GET', '/version')).body) as object;
    return 'polluted' in version;
  };
  const configmaps = '/api/v1/namespaces/team/configmaps';

  it.each(hostile)('%s in labels, annotations, data and selectors is a name like others', async (name) => {
    const plain = name.toLowerCase().replaceAll('_', 'u');
    const text = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"k-${plain}","labels":{"${name}":"x"},"annotations":{"${name}":"x"}},"data":{"${name}":"x"}}`;
    const created = await admin.call('POST', configmaps, { body: text });
    // label keys begin and end with a letter or digit
    if (name === '__proto__') expect([400, 422]).toContain(created.status);
    else expect(JSON.parse(created.body)).toMatchObject({ metadata: { labels: { [name]: 'x' } }, data: { [name]: 'x' } });
    const listed = await admin.call('GET', `${configmaps}?labelSelector=${name}%3Dx`);
    expect(listed.status).toBe(name === '__proto__' ? 400 : 200);
    if (name !== '__proto__') expect((JSON.parse(listed.body) as { items: unknown[] }).items).toHaveLength(1);
    // the objects that have no such label do not inherit it
    const without = await admin.call(
      'GET',
      `${configmaps}?labelSelector=${encodeURIComponent(`!${name},notin!=y`)}&fieldSelector=metadata.name%3Dkube-root-ca.crt`,
    );
    if (name !== '__proto__') expect((JSON.parse(without.body) as { items: unknown[] }).items).toHaveLength(1);
    expect(await polluted()).toBe(false);
  });

  it.each([
    ['application/merge-patch+json', '{"__proto__":{"polluted":1},"metadata":{"annotations":{"__proto__":{"polluted":1}}}}'],
    ['application/merge-patch+json', '{"constructor":{"prototype":{"polluted":1}}}'],
    ['application/merge-patch+json', '{"data":{"__proto__":{"polluted":"1"}}}'],
    [
      'application/strategic-merge-patch+json',
      '{"__proto__":{"polluted":1},"metadata":{"labels":{"constructor":{"prototype":{"polluted":1}}}}}',
    ],
    ['application/json-patch+json', '[{"op":"add","path":"/__proto__/polluted","value":1}]'],
    ['application/json-patch+json', '[{"op":"add","path":"/constructor/prototype/polluted","value":1}]'],
    ['application/json-patch+json', '[{"op":"copy","from":"/data/__proto__","path":"/metadata/__proto__"}]'],
    [
      'application/apply-patch+yaml',
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p, __proto__: {polluted: 1}}\n__proto__: {polluted: 1}\n',
    ],
  ])('of a prototype does not change it through %s %s', async (type, body) => {
    await admin.call('POST', configmaps, { body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'p' }, data: {} } });
    const reply = await admin.call('PATCH', `${configmaps}/p?fieldManager=x`, { type, body });
    expect(reply.status).toBeLessThan(500);
    expect(reply.body).not.toContain('"polluted":1');
    expect(await polluted()).toBe(false);
  });

  it('of a prototype is rejected or kept as a name in schemas and objects of custom resources', async () => {
    const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    const text = JSON.stringify({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'traps.example.com' },
      spec: {
        group: 'example.com',
        scope: 'Namespaced',
        names: { plural: 'traps', kind: 'Trap' },
        versions: [
          {
            name: 'v1',
            served: true,
            storage: true,
            schema: {
              openAPIV3Schema: {
                type: 'object',
                properties: {
                  spec: {
                    type: 'object',
                    'x-kubernetes-preserve-unknown-fields': true,
                    properties: { PROTO: { type: 'object', default: { polluted: 1 } }, constructor: { type: 'string', default: 'kept' } },
                  },
                },
              },
            },
          },
        ],
      },
    }).replace('"PROTO"', '"__proto__"');
    const created = await admin.call('POST', crds, { body: text });
    expect(created.status).toBeLessThan(500);
    expect(await polluted()).toBe(false);
    if (created.status !== 201) return;
    const traps = '/apis/example.com/v1/namespaces/team/traps';
    const trap = (spec: string) => `{"apiVersion":"example.com/v1","kind":"Trap","metadata":{"name":"t"},"spec":${spec}}`;
    const reply = await until('the kind is served', async () => {
      const response = await admin.call('POST', traps, { body: trap('{"__proto__":{"polluted":1},"a":{"__proto__":{"polluted":2}}}') });
      return response.status !== 404 && response;
    });
    expect(reply.status).toBeLessThan(500);
    const merged = await admin.call('PATCH', `${traps}/t`, {
      type: 'application/merge-patch+json',
      body: '{"spec":{"__proto__":{"polluted":3}}}',
    });
    expect(merged.status).toBeLessThan(500);
    expect(await polluted()).toBe(false);
  });
});
