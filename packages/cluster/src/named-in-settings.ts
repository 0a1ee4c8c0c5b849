import type { Fault } from '@oarlock/kernel/errors';
import { closest } from '@oarlock/kernel/known-keys';
import { Controllers } from '@oarlock/spi/controller';
import { Roles } from '@oarlock/spi/role';
import { Scheduling } from '@oarlock/spi/scheduling';
import type { Plan } from './plan.ts';

type Path = readonly (string | number)[];
interface Mention {
  readonly name: string;
  readonly path: Path;
}

/** A role whose settings name what others bring along: no schema of its own can know those names. */
interface Rule {
  readonly role: string;
  readonly token: symbol;
  /** Under which key a plugin says by what name the settings know it. */
  readonly declares: string;
  readonly noun: string;
  mentions(config: unknown): readonly Mention[];
}

const rules: readonly Rule[] = [
  {
    role: 'controllers',
    token: Controllers.token,
    declares: 'loop',
    noun: 'controller',
    mentions: (config) => [...listed(config, ['disable']), ...keyed(config, ['workers'])],
  },
  {
    role: 'scheduler',
    token: Scheduling.token,
    declares: 'plugin',
    noun: 'scheduling plugin',
    mentions: (config) => [...listed(config, ['disable']), ...keyed(config, ['weights']), ...profiled(config)],
  },
];

/** Names in the settings of roles by which nothing is known. Nothing is said where a plugin does not declare its name: it may be that one's. */
export function unknownNames({ file, plugins }: Plan): readonly Fault[] {
  return rules.flatMap(({ role, token, declares, noun, mentions }) => {
    const planned = plugins.find(({ name, plugin }) => name === role && plugin.provides.token === Roles.token);
    const chain = plugins.filter(({ plugin }) => plugin.provides.token === token).map(({ plugin }) => plugin.declares?.[declares]);
    if (planned === undefined || chain.some((name) => typeof name !== 'string')) return [];
    const known = new Set(chain as string[]);
    return mentions(planned.config)
      .filter(({ name }) => !known.has(name))
      .map(({ name, path }): Fault => {
        const at = file.locate([...planned.segments, ...path]);
        const meant = closest(name, [...known]);
        return {
          code: 'ConfigInvalid',
          message: `there is no ${noun} ${JSON.stringify(name)}`,
          path: [planned.path, ...path].join('.'),
          ...(at && { at }),
          remedy: meant === undefined ? `there are ${[...known].sort().join(', ')}` : `did you mean ${meant}?`,
        };
      });
  });
}

const at = (value: unknown, path: Path): unknown =>
  path.reduce<unknown>(
    (part, key) => (typeof part === 'object' && part !== null ? (part as Readonly<Record<string | number, unknown>>)[key] : undefined),
    value,
  );

/** What is not of its type is refused by the schema. */
function listed(config: unknown, path: Path, key?: string): readonly Mention[] {
  const list = at(config, path);
  if (!Array.isArray(list)) return [];
  return list.flatMap((_, index) => {
    const place = [...path, index, ...(key === undefined ? [] : [key])];
    const name = at(config, place);
    return typeof name === 'string' ? [{ name, path: place }] : [];
  });
}

function keyed(config: unknown, path: Path): readonly Mention[] {
  const record = at(config, path);
  return typeof record === 'object' && record !== null ? Object.keys(record).map((name) => ({ name, path: [...path, name] })) : [];
}

/** Profiles of a KubeSchedulerConfiguration: plugins by extension point, and their arguments. `*` is all of them. */
function profiled(config: unknown): readonly Mention[] {
  const profiles = at(config, ['profiles']);
  if (!Array.isArray(profiles)) return [];
  return profiles.flatMap((_, index) => {
    const path = ['profiles', index] as const;
    const points = keyed(config, [...path, 'plugins']).map((point) => point.path);
    const sets = points.flatMap((point) => [
      ...listed(config, [...point, 'enabled'], 'name'),
      ...listed(config, [...point, 'disabled'], 'name'),
    ]);
    return [...sets.filter(({ name }) => name !== '*'), ...listed(config, [...path, 'pluginConfig'], 'name')];
  });
}
