import { describe, expect, it } from 'vitest';
import { completionsAt } from '../../../src/components/completion/completions.ts';
import { Schemas } from '../../../src/components/completion/openapi-schema.ts';
import { positionAt } from '../../../src/components/completion/yaml-position.ts';

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const schemas = new Schemas({
  components: {
    schemas: {
      'apps.Deployment': {
        type: 'object',
        'x-kubernetes-group-version-kind': [{ group: 'apps', version: 'v1', kind: 'Deployment' }],
        properties: { spec: { description: 'The desired state.', allOf: [ref('apps.DeploymentSpec')] }, status: { type: 'object' } },
      },
      'apps.DeploymentSpec': {
        type: 'object',
        description: 'A spec.',
        required: ['selector'],
        properties: {
          replicas: { type: 'integer', description: 'The number of pods.' },
          paused: { type: 'boolean' },
          selector: { type: 'object', additionalProperties: { type: 'string' } },
          containers: { type: 'array', items: { allOf: [ref('core.Container')] } },
        },
      },
      'core.Container': {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string' },
          image: { type: 'string' },
          port: { allOf: [ref('IntOrString')] },
          imagePullPolicy: { type: 'string', enum: ['Always', 'IfNotPresent', 'Never'] },
          modes: { type: 'array', items: { type: 'string', enum: ['A', 'B'] } },
          limits: { type: 'object', additionalProperties: { allOf: [ref('api.Quantity')] } },
        },
      },
      'api.Quantity': { type: 'string' },
      IntOrString: { 'x-kubernetes-int-or-string': true },
    },
  },
});
const types = [
  { apiVersion: 'apps/v1', kind: 'Deployment' },
  { apiVersion: 'v1', kind: 'Pod' },
  { apiVersion: 'v1', kind: 'Service' },
];
const head = 'apiVersion: apps/v1\nkind: Deployment\n';
const complete = (text: string, known: Schemas | undefined = schemas) => {
  const position = positionAt(text.replace('|', ''), text.indexOf('|'));
  return position === undefined ? [] : completionsAt(position, known, types);
};
const labels = (text: string, known?: Schemas) => complete(text, known).map(({ label }) => label);
/** Returns the text after the first completion at the mark `|`. */
const completionOf = (text: string) => {
  const caret = text.indexOf('|');
  const position = positionAt(text.replace('|', ''), caret);
  const [item] = position === undefined ? [] : completionsAt(position, schemas, types);
  return position && item && text.slice(0, position.from) + item.insert + text.replace('|', '').slice(position.to);
};

describe('completionsAt', () => {
  it('offers keys with type and description, the required ones first', () => {
    expect(complete(`${head}spec:\n  |`)).toEqual([
      { label: 'selector', insert: 'selector:\n    ', type: 'map[string]string', description: '', isRequired: true },
      { label: 'containers', insert: 'containers:\n    - ', type: '[]Container', description: '', isRequired: false },
      { label: 'paused', insert: 'paused: ', type: 'boolean', description: '', isRequired: false },
      { label: 'replicas', insert: 'replicas: ', type: 'integer', description: 'The number of pods.', isRequired: false },
    ]);
    expect(complete(`${head}spec:\n  containers:\n  - por|`)).toMatchObject([{ label: 'port', type: 'integer or string' }]);
    expect(complete(`${head}spec:\n  containers:\n  - lim|`)).toMatchObject([{ type: 'map[string]Quantity' }]);
  });

  it('keeps the description of a field before that of its type', () => {
    expect(complete(`${head}sp|`)).toMatchObject([{ label: 'spec', type: 'DeploymentSpec', description: 'The desired state.' }]);
  });

  it('leaves out keys that the mapping has, and lists what begins with the typed text first', () => {
    expect(labels(`${head}spec:\n  containers:\n  - name: a\n    ima|`)).toEqual(['image', 'imagePullPolicy']);
    expect(labels(`${head}spec:\n  containers:\n  - name: a\n    image: x\n    m|`)).toEqual(['modes', 'imagePullPolicy', 'limits']);
    expect(labels(`${head}spec:\n  paused|`)).toEqual([]);
  });

  it('offers the values of enums and booleans, also as items of lists', () => {
    expect(labels(`${head}spec:\n  containers:\n  - imagePullPolicy: |`)).toEqual(['Always', 'IfNotPresent', 'Never']);
    expect(labels(`${head}spec:\n  containers:\n  - modes:\n    - |`)).toEqual(['A', 'B']);
    expect(labels(`${head}spec:\n  paused: t|`)).toEqual(['true']);
    expect(labels(`${head}spec:\n  replicas: |`)).toEqual([]);
  });

  it('offers kinds and versions that the server serves, and fit to each other', () => {
    expect(labels('kind: |', undefined)).toEqual(['Deployment', 'Pod', 'Service']);
    expect(labels('apiVersion: v1\nkind: |', undefined)).toEqual(['Pod', 'Service']);
    expect(labels('kind: Deployment\napiVersion: |', undefined)).toEqual(['apps/v1']);
    expect(labels('|')).toEqual(['apiVersion', 'kind', 'metadata']);
  });

  it('offers keys and values in flow style, with brackets', () => {
    const inserts = (text: string) => complete(text).map(({ insert }) => insert);
    expect(inserts(`${head}spec: { |`)).toEqual(['selector: { ', 'containers: [', 'paused: ', 'replicas: ']);
    expect(inserts(`${head}spec: { paused: t|`)).toEqual(['true']);
    expect(labels(`${head}spec: { containers: [{ name: a, ima|`)).toEqual(['image', 'imagePullPolicy']);
    expect(labels(`${head}spec:\n  containers:\n  - modes: [|]`)).toEqual(['A', 'B']);
    expect(labels(`${head}spec: { containers: [ |`)).toEqual([]);
    expect(labels('{ kind: |', undefined)).toEqual(['Deployment', 'Pod', 'Service']);
  });

  it('completes inside an open quote, and closes it', () => {
    expect(completionOf(`${head}spec:\n  containers:\n  - imagePullPolicy: "Nev|`)).toBe(
      `${head}spec:\n  containers:\n  - imagePullPolicy: "Never"`,
    );
    expect(completionOf(`${head}spec:\n  containers:\n  - 'imagePullPolicy': 'Nev|er' # all`)).toBe(
      `${head}spec:\n  containers:\n  - 'imagePullPolicy': 'Never' # all`,
    );
    expect(completionOf(`${head}spec:\n  "rep|`)).toBe(`${head}spec:\n  "replicas": `);
    expect(completionOf('"kind": "|')).toBe('"kind": "Deployment"');
    // a boolean in quotes is a string
    expect(labels(`${head}spec:\n  paused: "t|`)).toEqual([]);
    for (const closed of ['"Nev"|', `"Nev'|`, '"Nev\\|'])
      expect(labels(`${head}spec:\n  containers:\n  - imagePullPolicy: ${closed}`)).toEqual([]);
  });

  it('completes inside an open quote of flow style', () => {
    const before = `${head}spec: { containers: [{ `;
    expect(completionOf(`${before}imagePullPolicy: "Nev|`)).toBe(`${before}imagePullPolicy: "Never"`);
    expect(completionOf(`${before}imagePullPolicy: "Nev| }] }`)).toBe(`${before}imagePullPolicy: "Never" }] }`);
    expect(completionOf(`${before}modes: ['|'] }] }`)).toBe(`${before}modes: ['A'] }] }`);
    expect(completionOf(`${before}"imagePullP|" }] }`)).toBe(`${before}"imagePullPolicy":  }] }`);
    expect(completionOf('{ "kind": "Dep|" }')).toBe('{ "kind": "Deployment" }');
    expect(labels(`${before}imagePullPolicy: "Never"| }] }`)).toEqual([]);
  });

  it('keeps the colon and the value of a key that is replaced', () => {
    expect(completionOf(`${head}spec:\n  repl|: 3`)).toBe(`${head}spec:\n  replicas: 3`);
    expect(completionOf(`${head}spec: { "repl|": 3 }`)).toBe(`${head}spec: { "replicas": 3 }`);
    expect(completionOf(`${head}spec: { sel|: { a: b } }`)).toBe(`${head}spec: { selector: { a: b } }`);
  });

  it('offers nothing where the schema describes nothing', () => {
    expect(labels(`${head}spec:\n  unknown:\n    x|`)).toEqual([]);
    expect(labels(`${head}spec:\n  constructor:\n    x|`)).toEqual([]);
    expect(labels(`${head}spec:\n  |`, new Schemas({}))).toEqual([]);
  });
});
