import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { CustomResourceDefinition, JSONSchemaProps } from '@oarlock/api/types/apiextensions-v1';
import { describe, expect, it } from 'vitest';
import { typeDeclarations } from '../src/type-declarations.ts';
import { Website } from './support/website.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const golden = fileURLToPath(new URL('golden/types.txt', import.meta.url));

const everything: JSONSchemaProps = {
  type: 'object',
  description: 'Everything that a schema can have.\nIn two lines.',
  required: ['spec'],
  properties: {
    apiVersion: { type: 'string' },
    kind: { type: 'string' },
    metadata: { type: 'object' },
    spec: {
      type: 'object',
      description: 'the desired state; */ does not end a comment',
      required: ['size', 'with-dash'],
      properties: {
        size: { type: 'integer', format: 'int32', default: 3 },
        'with-dash': { type: 'boolean' },
        port: { 'x-kubernetes-int-or-string': true },
        mode: { type: 'string', enum: ["it's", 'b"c'], description: 'the mode', default: 'b"c' },
        modes: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
        nullable: { type: 'string', nullable: true },
        any: { 'x-kubernetes-preserve-unknown-fields': true },
        map: { type: 'object', additionalProperties: { type: 'array', items: { type: 'number' } } },
        open: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true, properties: { known: { type: 'string' } } },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        template: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
        rules: { type: 'array', items: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } } },
      },
    },
    status: { type: 'object', properties: { ready: { type: 'boolean' } } },
    data: { type: 'object', additionalProperties: { type: 'string' } },
  },
};
const definition = (kind: string, names: { readonly plural: string; readonly group?: string }): CustomResourceDefinition => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: `${names.plural}.${names.group ?? 'example.com'}` },
  spec: {
    group: names.group ?? 'example.com',
    scope: 'Cluster',
    names: { kind, plural: names.plural },
    versions: [
      { name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: everything } },
      { name: 'v1beta1', served: true, storage: false, schema: { openAPIV3Schema: { type: 'object' } } },
      { name: 'v1alpha1', served: false, storage: false },
    ],
  },
});

describe('typeDeclarations', () => {
  const definitions = [Website.definition, definition('NetPolicy', { plural: 'netpolicies' })];
  const text = typeDeclarations(definitions);

  it('writes the types of all served versions', async () => {
    if (process.env['UPDATE_GOLDEN'] === '1') await writeFile(golden, text);
    expect(text).toBe(await readFile(golden, 'utf8'));
  });

  it('does not depend on the order of definitions and fields', () => {
    const { spec } = definitions[1] as CustomResourceDefinition;
    const { properties = {} } = everything;
    const turned = { ...everything, properties: Object.fromEntries(Object.entries(properties).reverse()) };
    const [stored, ...others] = spec.versions;
    const same = { ...definitions[1], spec: { ...spec, versions: [{ ...stored, schema: { openAPIV3Schema: turned } }, ...others] } };
    expect(typeDeclarations([same as CustomResourceDefinition, Website.definition])).toBe(text);
  });

  it('compiles under the strict settings of the checkout', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'oarlock-types-'));
    try {
      await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
      await writeFile(join(folder, 'package.json'), '{"type":"module"}');
      await writeFile(join(folder, 'types.ts'), text);
      const use = [
        "import type { Client } from '@oarlock/spi/client';",
        "import { netpolicies, websites, type NetPolicy, type Website } from './types.ts';",
        'export async function use(client: Client): Promise<string> {',
        "  const website: Website = await client.get(websites, { namespace: 'a', name: 'b' });",
        "  const other: NetPolicy = await client.get(netpolicies, { name: 'b' });",
        '  const names: readonly string[] = (other.spec.rules ?? []).map(({ name }) => name);',
        "  return `${website.spec.title} ${names.join(' ')}`;",
        '}',
      ].join('\n');
      const settings = { extends: join(root, 'tsconfig.base.json'), compilerOptions: { noEmit: true }, include: ['*.ts'] };
      await writeFile(join(folder, 'use.ts'), use);
      await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(settings));
      const { stdout } = await promisify(execFile)(process.execPath, [join(root, 'node_modules', '.bin', 'tsc'), '-p', folder]).catch(
        (error: { readonly stdout: string }) => error,
      );
      expect(stdout).toBe('');
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('rejects names that clash or are no identifiers', () => {
    const other = definition('NetPolicy', { plural: 'netpolicies', group: 'other.com' });
    expect(() => typeDeclarations([definition('NetPolicy', { plural: 'netpolicies' }), other])).toThrow(
      'netpolicies.example.com and netpolicies.other.com both declare the type NetPolicy',
    );
    const named = definition('Website', { plural: 'websites' });
    for (const name of ['a\nevil();', 'a\revil();', 'a\u2028evil();', 'a */ evil();'])
      expect(() => typeDeclarations([{ ...named, metadata: { name } }])).toThrow(
        `${name}: the name ${JSON.stringify(name)} cannot be that of a definition`,
      );
    expect(() => typeDeclarations([definition('X {} evil()', { plural: 'xs' })])).toThrow(
      'xs.example.com: the kind "X {} evil()" cannot be the name of a type',
    );
  });
});
