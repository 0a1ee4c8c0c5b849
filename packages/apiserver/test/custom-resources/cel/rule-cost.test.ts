import { describe, expect, it } from 'vitest';
import type { JSONSchemaProps, ValidationRule } from '@oarlock/api/types/apiextensions-v1';
import { creationRequirements } from '../../../src/custom-resources/definition/schema-requirements.ts';
import { validateRuleDefinitions } from '../../../src/custom-resources/cel/rule-validation.ts';

const text = (maxLength?: number): JSONSchemaProps => ({ type: 'string', ...(maxLength !== undefined && { maxLength }) });
const choice = (...values: string[]): JSONSchemaProps => ({ type: 'string', enum: values });
const list = (items: JSONSchemaProps, more: JSONSchemaProps = {}): JSONSchemaProps => ({ type: 'array', items, ...more });
const map = (additionalProperties: JSONSchemaProps, more: JSONSchemaProps = {}): JSONSchemaProps => ({
  type: 'object',
  additionalProperties,
  ...more,
});
const object = (properties: Record<string, JSONSchemaProps>, more: JSONSchemaProps = {}): JSONSchemaProps => ({
  type: 'object',
  properties,
  ...more,
});
const ruled = (schema: JSONSchemaProps, ...rules: (string | ValidationRule)[]): JSONSchemaProps => ({
  ...schema,
  'x-kubernetes-validations': rules.map((rule) => (typeof rule === 'string' ? { rule } : rule)),
});
const spec = (properties: Record<string, JSONSchemaProps>): JSONSchemaProps => object({ spec: object(properties) });
const errorsOf = (schema: JSONSchemaProps): readonly string[] =>
  validateRuleDefinitions(schema, 'schema', { old: undefined, stored: creationRequirements.expressions }).map(
    ({ field, message }) => `${field}: ${message}`,
  );

const port: JSONSchemaProps = { type: 'integer', minimum: 1, maximum: 65_535 };
const atMostOne = (...names: string[]) => `${names.map((name) => `(has(self.${name})?1:0)`).join('+')}<=1`;
const same = (name: string) =>
  `(((!has(p1.${name}) || p1.${name} == '') && (!has(p2.${name}) || p2.${name} == '')) || (has(p1.${name}) && has(p2.${name}) && p1.${name} == p2.${name}))`;

/** Rules and schemas in the manner of well-known projects, reduced to what determines the cost. */
const projects: readonly (readonly [project: string, schema: JSONSchemaProps])[] = [
  [
    'a gateway with unique listeners',
    spec({
      listeners: ruled(
        list(
          object(
            { name: text(253), hostname: text(253), port, protocol: text(255), tls: object({ mode: choice('Terminate', 'Passthrough') }) },
            { required: ['name', 'port', 'protocol'] },
          ),
          { maxItems: 64, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
        ),
        "self.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.tls) : true)",
        "self.all(l, (l.protocol == 'HTTPS' && has(l.tls)) ? (l.tls.mode == '' || l.tls.mode == 'Terminate') : true)",
        'self.all(l1, self.exists_one(l2, l1.name == l2.name))',
        'self.all(l1, self.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && (has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname : !has(l1.hostname) && !has(l2.hostname))))',
      ),
    }),
  ],
  [
    'a route with unique parents and filters of nested lists',
    spec({
      parentRefs: ruled(
        list(
          object(
            { group: text(253), kind: text(63), __namespace__: text(63), name: text(253), sectionName: text(253) },
            { required: ['name'] },
          ),
          {
            maxItems: 32,
          },
        ),
        `self.all(p1, self.exists_one(p2, p1.group == p2.group && p1.kind == p2.kind && p1.name == p2.name && ${same('sectionName')}))`,
      ),
      rules: list(
        object({
          backendRefs: list(
            object({
              filters: ruled(
                list(
                  ruled(
                    object(
                      { type: choice('RequestHeaderModifier', 'RequestRedirect', 'URLRewrite'), urlRewrite: object({}) },
                      { required: ['type'] },
                    ),
                    "!(has(self.urlRewrite) && self.type != 'URLRewrite')",
                  ),
                  { maxItems: 16 },
                ),
                "!(self.exists(f, f.type == 'RequestRedirect') && self.exists(f, f.type == 'URLRewrite'))",
                "self.filter(f, f.type == 'RequestHeaderModifier').size() <= 1",
              ),
            }),
            { maxItems: 16 },
          ),
          matches: list(
            object({
              path: ruled(object({ type: text(), value: text(1024) }), "self.type == 'Exact' ? self.value.startsWith('/') : true"),
            }),
            {
              maxItems: 64,
            },
          ),
        }),
        { maxItems: 16 },
      ),
    }),
  ],
  [
    'a service entry with validated keys of labels and ports',
    spec({
      endpoints: list(
        ruled(
          object({
            address: text(256),
            network: text(2048),
            labels: map(text(), { maxProperties: 256 }),
            ports: ruled(
              map(port, { maxProperties: 128 }),
              "self.all(key, size(key) < 63 && key.matches('^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$'))",
            ),
          }),
          'has(self.address) || has(self.network)',
          "(has(self.address) ? self.address : '').startsWith('unix://') ? !has(self.ports) : true",
        ),
        { maxItems: 4096 },
      ),
    }),
  ],
  [
    'authentication policies by port',
    spec({
      portLevelMtls: ruled(map(object({ mode: text() }), { minProperties: 1 }), 'self.all(key, 0 < int(key) && int(key) <= 65535)'),
      selector: object({
        matchLabels: ruled(
          map(ruled(text(63), "!self.contains('*')"), { maxProperties: 4096 }),
          "self.all(key, !key.contains('*'))",
          'self.all(key, key.size() != 0)',
        ),
      }),
    }),
  ],
  [
    'traffic policies of unlimited lists in unlimited lists',
    spec({
      subsets: list(
        object({
          portLevelSettings: list(
            object({
              loadBalancer: ruled(
                object({
                  simple: text(),
                  consistentHash: ruled(object({ cookie: text(), header: text() }), atMostOne('cookie', 'header')),
                }),
                atMostOne('simple', 'consistentHash'),
              ),
            }),
          ),
        }),
      ),
      url: ruled(text(), "isURL(self) ? (url(self).getScheme() in ['', 'http', 'https', 'oci', 'file']) : (isURL('http://' + self))"),
    }),
  ],
  [
    'a composition with steps',
    spec({
      pipeline: list(
        ruled(
          object(
            {
              step: text(),
              credentials: list(
                ruled(
                  object({ name: text(), source: choice('None', 'Secret'), secretRef: object({}) }, { required: ['name', 'source'] }),
                  "self.source == 'Secret' ? has(self.secretRef) : true",
                ),
                { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
              ),
            },
            { required: ['step'] },
          ),
          "self.step != ''",
        ),
        { maxItems: 99 },
      ),
      resourceRefs: list(
        ruled(
          object({ name: text(), selector: map(text()) }),
          'has(self.name) || has(self.selector)',
          'has(self.name) ? self.name.size() > 0 : true',
        ),
      ),
    }),
  ],
  [
    'an agent whose mode excludes fields',
    ruled(
      spec({ mode: choice('StatefulSet', 'DaemonSet'), replicas: { type: 'integer' }, volumes: list(map(text())) }),
      "!(has(self.spec.mode) && self.spec.mode == 'DaemonSet' && has(self.spec.replicas))",
      'self.metadata.name.size() < 64',
    ),
  ],
  [
    'a storage cluster with unlimited device sets',
    spec({
      network: ruled(
        object({ provider: text(), selectors: map(text()) }),
        "!has(self.provider) || (self.provider != 'multus' || (self.provider == 'multus' && size(self.selectors) > 0))",
      ),
      zones: list(object({ names: list(ruled(text(63), "self.matches('^[a-z]+$')"), { maxItems: 10 }) }), { maxItems: 100 }),
      size: ruled(text(), 'self == oldSelf', "quantity(self).isGreaterThan(quantity('1Gi'))"),
    }),
  ],
];

/** The traffic policy of a service mesh, with ten durations. */
const durations = (count: number): JSONSchemaProps =>
  object(
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`d${i}`, ruled(text(), "duration(self) >= duration('1ms')")] as const)),
  );
const subsets = (count: number): JSONSchemaProps =>
  spec({ subsets: list(object({ policy: durations(count), ports: list(durations(count), { maxItems: 4096 }) })) });

const hint = '(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)';

describe('estimated cost of the rules of a definition', () => {
  it.each(projects)('allows %s', (_project, schema) => {
    expect(errorsOf(schema)).toEqual([]);
  });

  it('allows the durations of traffic policies up to the limit of a definition', () => {
    // each rule costs 4 for 1,048,576 strings
    expect(errorsOf(subsets(11))).toEqual([]);
    expect(errorsOf(subsets(12)).at(-1)).toContain('exceeds budget by factor of 1.006633x');
  });

  it('is multiplied by the limits of the lists and maps around a rule', () => {
    const nested = (maxItems: number) =>
      spec({ a: list(map(list(ruled(text(250), "self.contains('x')"), { maxItems }), { maxProperties: 50 }), { maxItems: 40 }) });
    // one evaluation costs 1 + 1000 / 10
    expect(errorsOf(nested(49))).toEqual([]);
    expect(errorsOf(nested(50))).toEqual([
      expect.stringContaining(`.rule: Forbidden: estimated rule cost exceeds budget by factor of 1.010000x ${hint}`),
    ]);
    expect(errorsOf(nested(100))).toEqual([
      expect.stringContaining(`.rule: Forbidden: estimated rule cost exceeds budget by factor of 2.0x ${hint}`),
    ]);
  });

  it('is bounded by the size of a request if a list around a rule has no limit', () => {
    const once = (items: JSONSchemaProps) => spec({ a: list(items) });
    const often = (items: JSONSchemaProps) => spec({ a: list(list(map(list(items)))) });
    for (const nested of [once, often]) {
      // a string has at least 2 bytes and a comma, so a request holds 1,048,576
      expect(errorsOf(nested(ruled(text(), 'self.size() < 4 || self.size() > 6 || self.size() == 5')))).toEqual([]);
      expect(errorsOf(nested(ruled(text(), 'self.size() < 4 || self.size() > 6 || self.size() == 5 || self.size() == 9')))).toEqual([
        expect.stringContaining('estimated rule cost exceeds budget by factor of 1.'),
      ]);
      const named = object(
        { firstRequiredName: text(), secondRequiredName: text() },
        { required: ['firstRequiredName', 'secondRequiredName'] },
      );
      expect(errorsOf(nested(ruled(named, "self.firstRequiredName.contains('x') || true")))).toEqual([
        expect.stringContaining('estimated rule cost exceeds budget by factor of more than 100x'),
        expect.stringContaining('contributed to estimated rule cost total'),
        expect.stringContaining('schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema'),
      ]);
    }
  });

  it('of a message expression is not multiplied', () => {
    const message = (messageExpression: string) => spec({ a: list(ruled(text(), { rule: 'true', messageExpression })) });
    expect(errorsOf(message("'wrong: ' + self"))).toEqual([]);
    const repeated = Array.from({ length: 10 }, () => 'self').join(' + ');
    expect(errorsOf(message(repeated))).toEqual([
      expect.stringContaining('.messageExpression: Forbidden: estimated messageExpression cost exceeds budget by factor of 1.'),
    ]);
  });

  it('lists the rules that contribute at least one percent if the total exceeds the limit', () => {
    const expensive = Object.fromEntries(
      Array.from({ length: 12 }, (_, i) => [`p${i}`, ruled(list(text(1)), 'self.all(a, a.size() < 3 || a.size() > 6)')] as const),
    );
    const errors = errorsOf(spec({ ...expensive, cheap: ruled(text(), 'true') }));
    expect(errors.slice(0, -1)).toEqual(
      Array.from({ length: 4 }, () => expect.stringContaining('contributed to estimated rule cost total exceeding cost limit')),
    );
    expect(errors.at(-1)).toContain('schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema');
  });
});
