import type { FeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import { formatTime } from '@oarlock/api/values/time';
import type { Clock } from '@oarlock/primitives/clock';
import { encodeValue } from '../endpoints/negotiation/encoding.ts';
import { notAcceptable, parseAccept } from '../endpoints/negotiation/negotiation.ts';

/** What the z-pages `/statusz` and `/flagz` report about a component (KEP-4827, KEP-4828). */
export interface ComponentFacts {
  readonly component: string;
  /** In milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** The version with a leading `v`. */
  readonly version: string;
  /** The emulated version, such as `1.35`; by default the minor version of `version`. */
  readonly emulationVersion?: string;
  /** The options of the component by the names of upstream's flags. They contain no secrets. */
  readonly flags: Readonly<Record<string, string>>;
  /** The served pages; all by default. */
  readonly paths?: readonly string[];
}

/** Returns the pages that the feature gates enable. */
export const zPagePaths = (features: FeatureGates): readonly string[] => [
  ...(features.enabled('ComponentFlagz') ? ['/flagz'] : []),
  ...(features.enabled('ComponentStatusz') ? ['/statusz'] : []),
];

export interface ZPage {
  readonly contentType: string;
  readonly body: string | Buffer;
}

const group = 'config.k8s.io';
const versions: ReadonlySet<string> = new Set(['v1beta1', 'v1alpha1']);
const formats = ['json', 'yaml'] as const;
const warning =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.';

export class ZPages {
  readonly #facts: ComponentFacts;
  readonly #clock: Clock;
  readonly paths: readonly string[];

  constructor(facts: ComponentFacts, clock: Clock) {
    this.#facts = facts;
    this.#clock = clock;
    this.paths = facts.paths ?? ['/flagz', '/statusz'];
  }

  has(path: string): boolean {
    return this.paths.includes(path);
  }

  /**
   * Returns a page as text, or as an object of config.k8s.io if the client requests one by media type.
   * @param served the paths that `/statusz` lists by their first segments
   * @throws StatusError `NotAcceptable` if the client accepts neither
   */
  page(path: string, accept: string | undefined, served: readonly string[]): ZPage {
    const { component, flags } = this.#facts;
    const kind = path === '/flagz' ? 'Flagz' : 'Statusz';
    const form = negotiate(accept, kind);
    if (form.format === 'text') {
      const [title, lines] =
        kind === 'Flagz' ? ['flags', Object.entries(flags).map((flag) => flag.join('='))] : ['statusz', this.#statusLines(served)];
      return { contentType: 'text/plain; charset=utf-8', body: `\n${component} ${title}\n${warning}\n\n${lines.join('\n')}\n` };
    }
    const fields = kind === 'Flagz' ? { flags } : this.#status(served);
    return encodeValue(
      { kind, apiVersion: `${group}/${form.version}`, metadata: { name: component }, ...fields },
      { format: form.format, pretty: false },
    );
  }

  #status(served: readonly string[]) {
    const { startedAt, version, emulationVersion = version.slice(1).split('.', 2).join('.') } = this.#facts;
    return {
      startTime: formatTime(startedAt),
      uptimeSeconds: Math.floor((this.#clock.now() - startedAt) / 1000),
      goVersion: process.version,
      binaryVersion: version.slice(1),
      emulationVersion,
      paths: [...new Set(served.map((path) => `/${path.split('/', 2)[1] ?? ''}`))].filter((path) => path !== '/').sort(),
    };
  }

  #statusLines(served: readonly string[]): readonly string[] {
    const { uptimeSeconds: up, goVersion, binaryVersion, emulationVersion, paths } = this.#status(served);
    const twoDigits = (value: number) => String(value).padStart(2, '0');
    return [
      `Started: ${unixDate(this.#facts.startedAt)}`,
      `Up: ${Math.floor(up / 3600)} hr ${twoDigits(Math.floor(up / 60) % 60)} min ${twoDigits(up % 60)} sec`,
      `Go version: ${goVersion}`,
      `Binary version: ${binaryVersion}`,
      `Emulation version: ${emulationVersion}`,
      `Paths: ${paths.join(' ')}`,
    ];
  }
}

type Form = { readonly format: 'text' } | { readonly format: (typeof formats)[number]; readonly version: string };

function negotiate(accept: string | undefined, kind: string): Form {
  for (const { type, subtype, parameters } of parseAccept(accept === undefined || accept === '' ? '*/*' : accept)) {
    if ((type === '*' || type === 'text') && (subtype === '*' || subtype === 'plain')) return { format: 'text' };
    const format = formats.find((known) => type === 'application' && subtype === known);
    const version = parameters.get('v') ?? '';
    if (format !== undefined && versions.has(version) && parameters.get('g') === group && parameters.get('as') === kind)
      return { format, version };
  }
  throw notAcceptable(['text/plain', ...formats.map((format) => `application/${format};g=${group};v=v1beta1;as=${kind}`)]);
}

/** Returns a time as Go's `time.UnixDate`, such as `Wed Oct 16 21:03:43 UTC 2024`; the day is padded with a space. */
function unixDate(time: number): string {
  const [weekday = '', day = '', month = '', year = '', clock = ''] = new Date(time).toUTCString().split(/,? /);
  return `${weekday} ${month} ${day.replace(/^0/, ' ')} ${clock} UTC ${year}`;
}
