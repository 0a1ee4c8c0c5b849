import { text } from '../text/en.ts';
import { accessLink, deniedRequest } from '../views/why/access/access-request.ts';

/** A link to the explanation of a denied request; nothing for other messages. */
export function WhyLink({ message }: { readonly message: string }) {
  const request = deniedRequest(message);
  return request === undefined ? null : <a href={accessLink(request)}>{text.why.whyDenied}</a>;
}
