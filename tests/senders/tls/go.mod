module send

go 1.25
