import { Authz, noOpinion, type Attributes, type Decision, type ResourceAttributes } from '@oarlock/spi/authz';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';
import { nodeGrant, nodeOf } from './node-grants.ts';
import { rules, type Rule } from './rules.ts';

interface Compiled {
  readonly resources: ReadonlySet<string>;
  readonly paths: ReadonlySet<string>;
  readonly prefixes: readonly string[];
  readonly verbs: ReadonlySet<string>;
}

/** Rules by group, so that a decision looks only at those of the asker's groups. */
function compile(all: readonly Rule[]): ReadonlyMap<string, readonly Compiled[]> {
  const byGroup = new Map<string, Compiled[]>();
  for (const rule of all) {
    const paths = rule.paths ?? [];
    const compiled: Compiled = {
      verbs: new Set(rule.verbs),
      resources: new Set(rule.resources ?? []),
      paths: new Set(paths.filter((path) => !path.endsWith('*'))),
      prefixes: paths.filter((path) => path.endsWith('*')).map((path) => path.slice(0, -1)),
    };
    for (const group of rule.groups) byGroup.set(group, [...(byGroup.get(group) ?? []), compiled]);
  }
  return byGroup;
}

function matches(rule: Compiled, asked: Attributes): boolean {
  if (!rule.verbs.has(asked.verb)) return false;
  if (asked.kind === 'path') return rule.paths.has(asked.path) || rule.prefixes.some((prefix) => asked.path.startsWith(prefix));
  const base = asked.group === '' ? asked.resource : `${asked.resource}.${asked.group}`;
  const name =
    asked.subresource === ''
      ? base
      : asked.group === ''
        ? `${asked.resource}/${asked.subresource}`
        : `${asked.resource}.${asked.group}/${asked.subresource}`;
  return rule.resources.has(name);
}

/** Fixed permissions of nodes, of joining machines and of everybody who is authenticated. */
export default Authz.plugin({
  id: 'authz-system-roles',
  config: z.strictObject({}),
  needs: { client: Client },
  create({ client }) {
    const byGroup = compile(rules);
    const ofNode = async (node: string, asked: ResourceAttributes): Promise<Decision> => {
      const because = await nodeGrant(client, node, asked);
      return because === undefined ? noOpinion : { decision: 'allow', because };
    };
    return {
      authorize(asked): Decision | Promise<Decision> {
        for (const group of asked.identity.groups) {
          if (byGroup.get(group)?.some((rule) => matches(rule, asked))) return { decision: 'allow', because: `system rule of ${group}` };
        }
        if (asked.kind === 'path') return noOpinion;
        const node = nodeOf(asked.identity);
        return node === undefined ? noOpinion : ofNode(node, asked);
      },
    };
  },
});
