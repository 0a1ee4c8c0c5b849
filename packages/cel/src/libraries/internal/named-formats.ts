import {
  asPrefix,
  isDns1035Label,
  isDns1123Label,
  isDns1123Subdomain,
  isLabelValue,
  isQualifiedName,
  type NameRule,
} from '@oarlock/api/values/names';
import { parseTime } from '@oarlock/api/values/time';
import { fn, traversal, type Library } from '../library.ts';
import { none, Opaque, Optional } from '../../values/value.ts';

const typeName = 'kubernetes.NamedFormat';

const rule =
  (holds: (text: string) => boolean, message: string): NameRule =>
  (text) =>
    holds(text) ? [] : [message];

const uri = rule((text) => /^(?:[a-zA-Z][a-zA-Z0-9+.-]*:.+|\/\S*)$/.test(text) && !/[\s#]/.test(text), 'invalid URI');
const uuid = rule(
  (text) => /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i.test(text),
  'does not match the UUID format',
);
const byte = rule((text) => /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text), 'invalid base64');
const date = rule((text) => /^\d{4}-\d\d-\d\d$/.test(text) && parseTime(`${text}T00:00:00Z`) !== undefined, 'invalid date');
const datetime = rule((text) => parseTime(text) !== undefined, 'invalid datetime');

const rules: Readonly<Record<string, NameRule>> = {
  dns1123Label: isDns1123Label,
  dns1123Subdomain: isDns1123Subdomain,
  dns1035Label: isDns1035Label,
  qualifiedName: isQualifiedName,
  dns1123LabelPrefix: asPrefix(isDns1123Label),
  dns1123SubdomainPrefix: asPrefix(isDns1123Subdomain),
  dns1035LabelPrefix: asPrefix(isDns1035Label),
  labelValue: isLabelValue,
  uri,
  uuid,
  byte,
  date,
  datetime,
};

/** The sizes that upstream assumes for the patterns of named formats in cost estimates. */
const patternSizes: Readonly<Record<string, number>> = {
  dns1123Label: 30,
  dns1123Subdomain: 60,
  dns1035Label: 30,
  qualifiedName: 60,
  dns1123LabelPrefix: 30,
  dns1123SubdomainPrefix: 60,
  dns1035LabelPrefix: 30,
  labelValue: 40,
};
/** The maximum size of a pattern, for cost estimates of a format that is not known at compile time. */
const mostPattern = 128;

class FormatValue extends Opaque {
  readonly typeName = typeName;
  readonly validate: NameRule;
  readonly #name: string;
  constructor(name: string, validate: NameRule) {
    super();
    this.#name = name;
    this.validate = validate;
  }
  override get size(): number {
    return patternSizes[this.#name] ?? mostPattern;
  }
}
const formats = new Map(Object.entries(rules).map(([name, validate]) => [name, new FormatValue(name, validate)]));

export const namedFormats: Library = {
  name: 'format',
  functions: [
    fn(`format.named(string): optional<${typeName}>`, (name: string) => {
      const found = formats.get(name);
      return found === undefined ? none : new Optional(found);
    }),
    ...Array.from(formats, ([name, format]) => fn(`format.${name}(): ${typeName}`, () => format)),
    fn(
      `(${typeName}).validate(string): optional<list<string>>`,
      (format: FormatValue, text: string) => {
        const faults = format.validate(text);
        return faults.length === 0 ? none : new Optional(faults);
      },
      { cost: (pattern, text) => traversal(text + 1) * Math.ceil(pattern * 0.25) },
    ),
  ],
};
