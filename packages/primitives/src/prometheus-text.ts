/** A sample of the Prometheus text format. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const line = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?$/;
const label = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const escapes: Readonly<Record<string, string>> = { '\\n': '\n', '\\"': '"', '\\\\': '\\' };
const numbers: Readonly<Record<string, number>> = { '+Inf': Infinity, '-Inf': -Infinity, NaN: Number.NaN };

const unescape = (text: string): string => text.replace(/\\./g, (escaped) => escapes[escaped] ?? escaped);

/** Parses the samples whose metric `accepts` selects. Comments and lines of another form are skipped. */
export function* samplesOf(text: string, accepts: (name: string) => boolean = () => true): Generator<Sample> {
  for (const each of text.split('\n')) {
    if (each === '' || each.startsWith('#')) continue;
    const [, name = '', labels = '', value = ''] = line.exec(each) ?? [];
    if (name === '' || !accepts(name)) continue;
    yield {
      name,
      labels: Object.fromEntries([...labels.matchAll(label)].map(([, key = '', content = '']) => [key, unescape(content)])),
      value: numbers[value] ?? Number(value),
    };
  }
}
