import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { renderTemplates } from './go-template.ts';

type Values = Readonly<Record<string, unknown>>;

export interface ChartManifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

export interface ReleaseOptions {
  readonly values: Values;
  /** Default: `oarlock` in the namespace `oarlock`; another release is in the namespace `tenant`. */
  readonly release?: string;
}

const isMap = (value: unknown): value is Values => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Merges maps as Helm does: other values replace the defaults. */
function merge(defaults: Values, more: Values): Values {
  const merged = { ...defaults };
  for (const [key, value] of Object.entries(more)) {
    const before = merged[key];
    merged[key] = isMap(before) && isMap(value) ? merge(before, value) : value;
  }
  return merged;
}

/** Renders a chart as `helm template` does, without NOTES.txt. @throws Error if a template uses an action or a function that is not known here */
export function renderChart<T extends ChartManifest>(folder: string, { values, release = 'oarlock' }: ReleaseOptions): readonly T[] {
  const read = (path: string) => readFileSync(join(folder, path), 'utf8');
  const { name, version, appVersion } = parse(read('Chart.yaml')) as Readonly<Record<string, string>>;
  const root = {
    Values: merge(parse(read('values.yaml')) as Values, values),
    Release: { Name: release, Namespace: release === 'oarlock' ? 'oarlock' : 'tenant', Service: 'Helm' },
    Chart: { Name: name, Version: version, AppVersion: appVersion },
  };
  const templates = new Map(readdirSync(join(folder, 'templates')).map((file) => [file, read(join('templates', file))]));
  const rendered = renderTemplates(templates, root);
  return [...rendered].flatMap(([file, text]) =>
    file.endsWith('.yaml')
      ? parseAllDocuments(text).map((document) => {
          const [error] = document.errors;
          if (error !== undefined) throw new Error(`${file}: ${error.message}\n${text}`);
          return document.toJS() as T;
        })
      : [],
  );
}
