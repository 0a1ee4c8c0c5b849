import { decodeManagers } from '@oarlock/api/managed-fields/managers';
import { applyJsonPatch } from '@oarlock/api/patches/json-patch';
import { applyMergePatch } from '@oarlock/api/patches/merge-patch';
import { applyStrategicMergePatch } from '@oarlock/api/patches/strategic-merge-patch';
import { schemaOf, type Schema } from '@oarlock/api/schema/schema';
import { parseFieldSelector } from '@oarlock/api/selectors/field-selector';
import { parseLabelSelector } from '@oarlock/api/selectors/label-selector';
import { decodeObject, parseBody } from '@oarlock/api/serializer/serializer';
import { StatusError } from '@oarlock/api/status';
import { parseDuration } from '@oarlock/api/values/duration';
import { ParseError } from '@oarlock/api/values/parse-error';
import { parseQuantity } from '@oarlock/api/values/quantity';
import { parseTime } from '@oarlock/api/values/time';
import { validateDefinition } from '@oarlock/apiserver/custom-resources/definition/validation';
import { compileJsonPath } from '@oarlock/apiserver/custom-resources/internal/json-path';
import { compilePattern } from '@oarlock/apiserver/custom-resources/schema/pattern';
import { parseTarget } from '@oarlock/apiserver/http/path';
import { parseAccept } from '@oarlock/apiserver/endpoints/negotiation/negotiation';
import { decodeProtobuf } from '@oarlock/apiserver/endpoints/negotiation/protobuf-decoder';
import { parse as parseCel } from '@oarlock/cel/syntax/parser';
import { CelSyntaxError } from '@oarlock/cel/syntax/issue';
import { KubeconfigError, parseKubeconfig } from '@oarlock/client/kubeconfig';
import { csiTable } from '@oarlock/csi/csi-messages';
import { decodeMessage } from '@oarlock/dns-server/message/message';
import { CniError, parseResult, toNetworkResult } from '@oarlock/network-cni/cni/protocol';
import fc from 'fast-check';
import { ca, certificateTargets } from './certificate-targets.ts';
import type { FuzzTarget } from './engine.ts';
import { framedTargets } from './framed-targets.ts';
import { jsonValue, mutatedBytes, mutatedText } from './inputs.ts';
import { imageTargets } from './image-targets.ts';
import { messageTargets } from './message-targets.ts';
import { signedTargets } from './signed-targets.ts';
import { spdyTargets } from './spdy-targets.ts';

const isStatus = (error: unknown): boolean => error instanceof StatusError && error.code < 500;
const isParseError = (error: unknown): boolean => error instanceof ParseError;
const never = (): boolean => false;
const target = <T>(each: FuzzTarget<T>): FuzzTarget => each as FuzzTarget;

const pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'a', labels: { a: 'b' }, annotations: {}, managedFields: [], creationTimestamp: '2026-01-01T00:00:00Z' },
  spec: { containers: [{ name: 'c', image: 'i', resources: { limits: { cpu: '100m', memory: '1Gi' } }, ports: [{ containerPort: 80 }] }] },
};
const podKind = { group: '', version: 'v1', kind: 'Pod' };
const podSchema = schemaOf(podKind) as Schema;
const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'things.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'things', kind: 'Thing', singular: 'thing', listKind: 'ThingList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        additionalPrinterColumns: [{ name: 'a', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' }],
        selectableFields: [{ jsonPath: '.spec.a' }],
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                required: ['a'],
                'x-kubernetes-validations': [{ rule: 'self.a != "x" && self.items.all(i, i > 0)', message: 'no' }],
                properties: {
                  a: { type: 'string', pattern: '^[a-z]+$', maxLength: 10, default: 'b', enum: ['a', 'b'] },
                  items: { type: 'array', maxItems: 10, items: { type: 'integer', format: 'int32', minimum: 0 } },
                  map: { type: 'object', additionalProperties: { type: 'string' }, 'x-kubernetes-preserve-unknown-fields': true },
                },
              },
            },
          },
        },
      },
    ],
  },
};
/** An object for JSON paths, with nested and wide values. */
const nestedObject = {
  ...pod,
  status: { conditions: Array.from({ length: 50 }, (_, a) => ({ type: 'Ready', status: 'True', a })) },
  a: { a: { a: { a: [[{ a: 1 }, { a: [1, 2, 3] }]] } } },
};
const definitionKind = { group: 'apiextensions.k8s.io', version: 'v1', kind: 'CustomResourceDefinition' };

const protobufPod = Buffer.concat([
  Buffer.from('k8s\0'),
  Buffer.from([
    0x0a, 9, 0x0a, 2, 0x76, 0x31, 0x12, 3, 0x50, 0x6f, 0x64, 0x12, 14, 0x0a, 3, 0x0a, 1, 0x61, 0x12, 7, 0x12, 5, 0x0a, 1, 0x63, 0x12, 0,
  ]),
]);
const kubeconfig = `apiVersion: v1
kind: Config
current-context: x
clusters: [{ name: c, cluster: { server: 'https://127.0.0.1:6443', certificate-authority-data: ${Buffer.from(ca.certificate).toString('base64')} } }]
users: [{ name: u, user: { token: abc } }]
contexts: [{ name: x, context: { cluster: c, user: u } }]
`;
const dnsQuery = Buffer.from('000101000001000000000001037777770765786d61706c6503636f6d00000100010000290500000000000000', 'hex');
const dnsAnswer = Buffer.from(
  '0001818000010001000000000377777707657861616d706c6503636f6d0000010001c00c000100010000003c000401020304',
  'hex',
);

export const targets: readonly FuzzTarget[] = [
  target({
    name: 'HTTP targets',
    inputs: mutatedText(
      '/api/v1/namespaces/a/pods/b/log?follow=true&container=c&labelSelector=a%3Db%2Cc%20in%20(d)',
      '/apis/apps/v1/deployments?watch=1&resourceVersion=7',
      '/api/v1/nodes/n/proxy/a/../b?x=y',
    ),
    parse: (text) => parseTarget(text),
    isRejection: isStatus,
  }),
  target({
    name: 'Accept headers',
    inputs: mutatedText(
      'application/json;as=Table;g=meta.k8s.io;v=v1,application/json;q=0.5, */*',
      'application/vnd.kubernetes.protobuf;stream=watch',
    ),
    parse: (text) => parseAccept(text),
    isRejection: isStatus,
  }),
  target({
    name: 'JSON',
    inputs: mutatedText(JSON.stringify(pod)),
    parse: (text) => decodeObject(text, { type: 'application/json', expected: podKind, fieldValidation: 'Strict', exact: true }),
    isRejection: isStatus,
  }),
  target({
    name: 'YAML',
    inputs: mutatedText(
      'apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: a\n  labels: {a: b}\nspec:\n  containers:\n  - name: c\n    <<: *m\n    args: [|\n      x\n      , "y"]\n',
      JSON.stringify(pod),
    ),
    parse: (text) => decodeObject(text, { type: 'application/yaml', expected: podKind, fieldValidation: 'Warn' }),
    isRejection: isStatus,
  }),
  target({ name: 'protobuf', inputs: mutatedBytes(protobufPod), parse: (bytes) => decodeProtobuf(bytes), isRejection: isStatus }),
  target({
    name: 'CEL',
    inputs: mutatedText(
      'self.a.all(x, x.matches("^[a-z]+$") && x.size() < 10) ? [1u, -2, 3.0e5] : {"a": b"\\x00", \'c\': r"""d"""}',
      'has(object.metadata.labels) && object.spec.replicas <= 5 || !(request.userInfo.username in ["a"])',
      'duration("1h") + timestamp("2026-01-01T00:00:00Z") > now',
    ),
    parse: (text) => parseCel(text, { bindings: true }),
    isRejection: (error) => error instanceof CelSyntaxError,
  }),
  target({
    name: 'label selectors',
    inputs: mutatedText('a=b,c!=d,e in (f,g),!h,i notin (j),k', 'example.com/name==value'),
    parse: (text) => parseLabelSelector(text),
    isRejection: isParseError,
  }),
  target({
    name: 'field selectors',
    inputs: mutatedText('metadata.name=a,spec.nodeName!=b', 'a=b\\,c\\=d\\\\'),
    parse: (text) => parseFieldSelector(text),
    isRejection: isParseError,
  }),
  target({
    name: 'quantities',
    inputs: mutatedText('100m', '1.5Gi', '12e6', '-0.5k', '9223372036854775807'),
    parse: (text) => parseQuantity(text).toString(),
    isRejection: isParseError,
  }),
  target({
    name: 'durations and times',
    inputs: mutatedText('1h2m3.5s', '-10ms', '2026-01-01T00:00:00.123456Z', '2026-12-31T23:59:60+01:00'),
    parse: (text) => [parseTime(text), parseDuration(text)],
    isRejection: isParseError,
  }),
  target({
    name: 'JSON patches',
    inputs: mutatedText(
      '[{"op":"add","path":"/metadata/labels/a~1b","value":1},{"op":"move","from":"/spec","path":"/x"},{"op":"test","path":"/kind","value":"Pod"}]',
      '[{"op":"copy","from":"/spec/containers/0","path":"/spec/containers/-"},{"op":"remove","path":"/metadata"}]',
    ),
    parse: (text) => applyJsonPatch(pod, parseBody(text, 'application/json')),
    isRejection: isStatus,
  }),
  target({
    name: 'merge patches',
    inputs: fc.oneof(
      mutatedText('{"metadata":{"labels":null,"annotations":{"a":"b"}},"spec":{"containers":[]}}').map((text) => [text] as const),
      jsonValue.map((value) => [JSON.stringify(value)] as const),
    ),
    parse: ([text]) => applyMergePatch(pod, parseBody(text, 'application/json')),
    isRejection: isStatus,
  }),
  target({
    name: 'strategic merge patches',
    inputs: mutatedText(
      '{"spec":{"containers":[{"name":"c","$patch":"delete"},{"name":"d","image":"x"}],"$setElementOrder/containers":[{"name":"d"}]},"metadata":{"$retainKeys":["name"],"$deleteFromPrimitiveList/finalizers":["a"]}}',
    ),
    parse: (text) => applyStrategicMergePatch(pod, parseBody(text, 'application/json'), podSchema),
    isRejection: isStatus,
  }),
  target({
    name: 'managed fields',
    inputs: mutatedText(
      '[{"manager":"a","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"k:{\\"name\\":\\"c\\"}":{".":{},"f:image":{}},"v:1":{},"i:0":{}}}}]',
    ),
    parse: (text) => decodeManagers(parseBody(text, 'application/json')),
    isRejection: isStatus,
  }),
  target({
    name: 'CRD schemas',
    inputs: mutatedText(JSON.stringify(definition)),
    parse: (text) => validateDefinition(decodeObject(text, { type: 'application/json', expected: definitionKind }).object as never),
    isRejection: isStatus,
  }),
  target({
    name: 'patterns of schemas',
    inputs: mutatedText('^[a-z]+(?:\\.[a-z]{1,5})*$', '(a+)+$', '\\p{L}{2,10}|[[:alpha:]]'),
    parse: (text) => compilePattern(text),
    isRejection: never,
  }),
  target({
    name: 'JSON paths',
    inputs: mutatedText(
      '.status.conditions[?(@.type=="Ready")].status',
      "{$.metadata.annotations['example.com/a']}",
      '.spec.containers[*].ports[-1:]..containerPort',
      '..[?(@..a>=1.5)]',
    ),
    parse(text) {
      const found = compileJsonPath(text)?.(nestedObject) ?? [];
      if (found.length > 10_000) throw new Error('more values than the bound');
      if (found.some((value) => typeof value === 'function' || value === Object.prototype))
        throw new Error('an inherited property was read');
    },
    isRejection: never,
  }),
  target({
    name: 'kubeconfigs',
    inputs: mutatedText(kubeconfig),
    parse: (text) => parseKubeconfig(text, { folder: '/nonexistent' }),
    isRejection: (error) => error instanceof KubeconfigError,
  }),
  target({
    name: 'CNI results',
    inputs: fc.oneof(
      jsonValue,
      fc.record({ ips: jsonValue }),
      fc.record({ ips: fc.array(fc.record({ address: jsonValue, gateway: jsonValue })) }),
      mutatedText('{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.1/24","gateway":"10.0.0.254"}],"routes":[{"dst":"0.0.0.0/0"}]}').map(
        (text) => {
          try {
            return JSON.parse(text) as unknown;
          } catch {
            return text;
          }
        },
      ),
    ),
    parse: (value) => toNetworkResult(parseResult('p', value)),
    isRejection: (error) => error instanceof CniError,
  }),
  target({
    name: 'CSI responses',
    inputs: mutatedBytes(
      csiTable
        .codec('ListVolumesResponse')
        .encode({ entries: [{ volume: { volumeId: 'v', capacityBytes: 5, volumeContext: { a: 'b' } } }], nextToken: 'n' }),
    ),
    parse: (bytes) => csiTable.codec('ListVolumesResponse').decode(bytes),
    // what protobufjs throws; the gRPC library makes a status of it
    isRejection: (error) =>
      error instanceof Error && /index out of range|^invalid |max depth|[Ii]llegal |not valid for encoding utf-8/.test(error.message),
  }),
  target({ name: 'DNS messages', inputs: mutatedBytes(dnsQuery, dnsAnswer), parse: (bytes) => decodeMessage(bytes), isRejection: never }),
  ...certificateTargets,
  ...framedTargets,
  ...signedTargets,
  ...spdyTargets,
  ...messageTargets,
  ...imageTargets,
];
