import { idOf } from './spec.mjs';
import { quote } from './schema.mjs';

/** Embedded structs of versions that are no longer served: they have no definition. */
const unserved = /\.v1beta1\.IngressRuleValue$/;

/**
 * One JSON text per package: message -> field -> `number type`, with ` inline` where the JSON form puts the fields of the
 * message into its parent (Go embedding).
 */
export function protobufModule({ protobuf, definitions }) {
  const packages = new Map();
  for (const name of Object.keys(protobuf).sort()) {
    const at = name.lastIndexOf('.');
    const [pkg, message] = [name.slice(0, at), name.slice(at + 1)];
    const properties = definitions.get(idOf(`io.${name}`))?.properties;
    const known = properties && new Set(properties.map((p) => p.name));
    const fields = {};
    for (const [field, [number, type]] of Object.entries(protobuf[name])) {
      const embedded = known === undefined ? unserved.test(type) : known.size > 0 && !known.has(field);
      const inline = embedded && type.startsWith('k8s.io.');
      fields[field] = `${number} ${type}${inline ? ' inline' : ''}`;
    }
    packages.set(pkg, { ...packages.get(pkg), [message]: fields });
  }
  const lines = [...packages].map(([pkg, messages]) => `  ${JSON.stringify(pkg)}: ${quote(JSON.stringify(messages))},`);
  return `/** Protobuf package -> JSON text of its messages; tools/generate-api/protobuf.mjs says how a field is written. Large: import it dynamically. */
export const protobufTable: Readonly<Record<string, string>> = {
${lines.join('\n')}
};
`;
}
