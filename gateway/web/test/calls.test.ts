import { expect, it } from "vitest";

import { queryOf } from "../src/api/calls.ts";

it("writes a space as %20 and a plus as %2B, for the gateway decodes only those", () => {
  expect(queryOf({ section: "Floor C", q: "a+b", city: "" })).toBe("?section=Floor%20C&q=a%2Bb");
  expect(queryOf({ section: "" })).toBe("");
});
